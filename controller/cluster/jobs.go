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
	// maxJobs is the maximum number of Jobs without pods that are remembered; a CronJob counts once.
	maxJobs = 1000
)

// job records how long the most recent successful pods of a Job or a CronJob ran.
type job struct {
	runs []time.Duration // in order of arrival
	past []time.Duration // ascending; never changed, snapshots share it
	pods map[*pod]bool   // bound and not terminal
	last time.Time       // when a run was added
}

// jobs are all Jobs that are remembered.
type jobs struct {
	nodes *nodes
	by    map[string]*job
	sweep int // number of jobs at which forget is called next
}

// of returns the job of the name, a new one if it is not known.
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

// forget drops, of the Jobs without pods, all but the maxJobs/2 with the most recent runs. How often it is called
// depends on the number of Jobs, so that thousands of running Jobs do not make it expensive.
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

// join adds a bound pod to its Job.
func (js *jobs) join(p *pod) {
	if p.Job != "" && p.Node != "" && !p.Terminal {
		js.of(p.Job).pods[p] = true
	}
}

// leave removes a pod from its Job, and forgets the Job if it has neither pods nor runs.
func (js *jobs) leave(p *pod) {
	j := js.by[p.Job]
	if j == nil {
		return
	}
	if delete(j.pods, p); len(j.pods) == 0 && len(j.past) == 0 {
		delete(js.by, p.Job)
	}
}

// noteRun records how long a pod ran, if the pod has succeeded since it was last seen.
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

// runOf returns what is known about how long a pod will run; nil unless it is a pod of a Job that has started.
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
