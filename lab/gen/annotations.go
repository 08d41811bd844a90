package gen

import (
	"math/rand/v2"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// annotate adds disruption annotations to the pools of half of the seeds, and adds Jobs and missing daemons, which
// they concern, to the nodes.
func annotate(s *model.Snapshot, seed uint64) {
	r := source{rand.New(rand.NewPCG(seed, 0x776973686573))}
	if r.chance(50) {
		return
	}
	for i := range s.Pools {
		d := &s.Pools[i].Disruption
		if r.chance(25) {
			d.Window = model.Window{Empty: r.chance(50), Drifted: r.chance(70), Underused: true, Open: r.chance(60)}
			d.Window.Until = s.Now.Add(time.Duration(1+r.IntN(600)) * time.Minute)
		}
		if r.chance(5) {
			d.Unclear = "annotation nodeless.sh/minimum-saving: nobody can read this"
		}
		if r.chance(25) {
			d.MinSaving = model.Price(r.IntN(200_000))
		}
		if r.chance(25) {
			d.MinSavingPercent = r.IntN(60)
		}
		if r.chance(30) {
			d.SoftExpireAfter = time.Duration(1+r.IntN(90)) * time.Minute
		}
		d.ReplaceCrowded, d.WaitForJobs = r.chance(40), r.chance(50)
	}
	for i := range s.Nodes {
		r.jobs(s, &s.Nodes[i])
		if n := &s.Nodes[i]; r.chance(30) {
			n.MissingDaemons = []model.MissingDaemon{{
				DaemonSet: "kube-system/agent",
				Since:     s.Now.Add(-time.Duration(r.IntN(300)) * time.Second),
			}}
			n.Used = n.Used.Plus(n.Free().NonNegative()).Plus(model.Resources{model.CPU: 1})
		}
	}
}

// jobs turns some of the node's pods into pods of Jobs.
func (r source) jobs(s *model.Snapshot, n *model.Node) {
	for i := range n.Pods {
		if p := &n.Pods[i]; r.chance(30) && !p.Daemon {
			p.Job = &model.JobRun{Started: s.Now.Add(-time.Duration(r.IntN(3600)) * time.Second)}
			for at := 0; r.chance(60); {
				at += r.IntN(1800)
				p.Job.Past = append(p.Job.Past, time.Duration(at)*time.Second)
			}
			if r.chance(30) {
				p.Job.EndsBy = s.Now.Add(time.Duration(r.IntN(3600)-600) * time.Second)
			}
		}
	}
}
