package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// maxRuns is how many of a Job's last runs are remembered.
	maxRuns = 20
	// maxJobs is how many Jobs without pods are remembered at most; CronJobs count once.
	maxJobs = 1000
)

// job is how long the pods of a Job or a CronJob ran that succeeded, the last ones.
type job struct {
	runs []time.Duration // as they came
	past []time.Duration // ascending; never changed, snapshots share it
	pods map[*pod]bool   // that have their place and are not over
	last time.Time       // when a run was added
}

// jobs are all that are remembered.
type jobs struct {
	nodes *nodes
	by    map[string]*job
	sweep int // at how many it is looked next which can be forgotten
}

// of is the job of the name, a new one if it is not known.
func (js *jobs) of(name string) *job {
	j := js.by[name]
	if j == nil {
		if len(js.by) >= js.sweep {
			js.forget()
		}
		j = &job{pods: map[*pod]bool{}}
		js.by[name] = j
	}
	return j
}

// forget drops of those without pods all but the half of maxJobs whose last runs came last. How often it is called
// follows from how many there are, so that thousands of Jobs that run do not make it dear.
func (js *jobs) forget() {
	var idle []string
	for name, j := range js.by {
		if len(j.pods) == 0 {
			idle = append(idle, name)
		}
	}
	slices.SortFunc(idle, func(a, b string) int { return cmp.Or(js.by[b].last.Compare(js.by[a].last), cmp.Compare(a, b)) })
	for _, name := range idle[min(len(idle), maxJobs/2):] {
		delete(js.by, name)
	}
	js.sweep = len(js.by) + maxJobs/2
}

// join notes a pod that has its place.
func (js *jobs) join(p *pod) {
	if p.Job != "" && p.Node != "" && !p.Terminal {
		js.of(p.Job).pods[p] = true
	}
}

// leave forgets a pod, and its Job if that says nothing.
func (js *jobs) leave(p *pod) {
	j := js.by[p.Job]
	if j == nil {
		return
	}
	if delete(j.pods, p); len(j.pods) == 0 && len(j.past) == 0 {
		delete(js.by, p.Job)
	}
}

// noteRun remembers how long a pod ran that has succeeded since it was last seen.
func (js *jobs) noteRun(old, now *pod, at time.Time) {
	if now.Ran <= 0 || old != nil && old.Key == now.Key && old.Ran > 0 {
		return
	}
	j := js.of(now.Job)
	if j.last, j.runs = at, append(j.runs, now.Ran); len(j.runs) > maxRuns {
		j.runs = slices.Clone(j.runs[len(j.runs)-maxRuns:])
	}
	j.past = slices.Sorted(slices.Values(j.runs))
	for p := range j.pods {
		js.nodes.touchPods(p.Node)
	}
}

// runOf is what is known of how long a pod runs on; nil if it is none of a Job's that has begun.
func (js *jobs) runOf(p *pod) *model.JobRun {
	if p.Job == "" || p.Started.IsZero() || p.Terminal {
		return nil
	}
	out := &model.JobRun{Started: p.Started, EndsBy: p.EndsBy}
	if j := js.by[p.Job]; j != nil {
		out.Past = j.past
	}
	return out
}
