package disrupt

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// unfinished is a Job's pod that would begin anew elsewhere.
type unfinished struct {
	key  model.PodKey
	left time.Duration // that it is likely to run on
	lost float64       // what its run has cost so far, in prices × seconds
}

// jobs says which Job's pod will be done sooner than moving it pays: to wait for it costs what the command would save meanwhile;
// to move it costs what its run has cost so far, since it begins anew, and what is paid twice meanwhile (Policy.PaidTwice).
func (r *run) jobs(victims []*model.Node, saves model.Price) model.Reason {
	var all []unfinished
	for _, n := range victims {
		if !r.pools[n.Pool].Disruption.WaitForJobs {
			continue
		}
		for i := range n.Pods {
			if u, known := r.unfinished(n, &n.Pods[i]); known {
				all = append(all, u)
			}
		}
	}
	slices.SortFunc(all, func(a, b unfinished) int {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name))
	})
	launched := max(priceOf(victims)-max(saves, 0), 0)
	lost := float64(float64(launched) * r.policy.PaidTwice().Seconds())
	for _, u := range all {
		lost += u.lost
		if waiting := float64(float64(max(saves, 0)) * u.left.Seconds()); lost >= waiting {
			return model.Reason{Rule: model.RuleJob, Object: podName(u.key), Detail: u.left.Round(time.Second).String()}
		}
	}
	return model.Reason{}
}

func (r *run) unfinished(n *model.Node, p *model.BoundPod) (unfinished, bool) {
	if p.Job == nil || !p.Moves() {
		return unfinished{}, false
	}
	left, known := p.Job.Remaining(r.s.Now)
	ran := max(r.s.Now.Sub(p.Job.Started), 0)
	return unfinished{p.PodKey, left, float64(float64(n.Price) * share(r.s, n, p) * ran.Seconds())}, known
}

// share is the part of the machine that the pod takes, 0 to 1: that of CPU or of memory, whichever is more.
func share(s *model.Snapshot, n *model.Node, p *model.BoundPod) float64 {
	part := 0.0
	if p.Shape < 0 || p.Shape >= len(s.Shapes) {
		return part
	}
	for _, i := range []int{model.CPU, model.Memory} {
		if n.Allocatable[i] > 0 {
			part = max(part, float64(s.Shapes[p.Shape].Requests[i])/float64(n.Allocatable[i]))
		}
	}
	return min(part, 1)
}
