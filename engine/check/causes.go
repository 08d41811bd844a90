package check

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// mayGo: a method removes a node only while its pool's window allows it, and never while an annotation of the pool is
// invalid.
func (j *disruption) mayGo(n *model.Node, how model.Method) {
	d := &j.pools[n.Pool].pool.Disruption
	bound := false
	switch how {
	case model.Empty:
		bound = d.Window.Empty
	case model.Underutilized:
		bound = d.Window.Underused
	case model.Drifted, model.Expired, model.CrowdedOut:
		bound = d.Window.Drifted
	}
	if bound && !d.Window.Open {
		j.fail("window", "node "+n.Name, "is removed as %s outside of the disruption windows of pool %s", how, n.Pool)
	}
	if d.Unclear != "" {
		j.fail("window", "node "+n.Name, "is removed as %s, but a disruption annotation of pool %s is invalid: %s",
			how, n.Pool, d.Unclear)
	}
}

// due: the method has cause to replace the node.
func (j *disruption) due(n *model.Node, how model.Method) {
	object, d := "node "+n.Name, &j.pools[n.Pool].pool.Disruption
	switch how {
	case model.Drifted:
		if n.Drifted == "" {
			j.fail("drifted", object, "has not drifted")
		}
	case model.Expired:
		if d.SoftExpireAfter <= 0 || j.s.Now.Sub(n.Created) < d.SoftExpireAfter {
			j.fail("expired", object, "is not too old for pool %s", n.Pool)
		}
	case model.CrowdedOut:
		waits := slices.ContainsFunc(n.MissingDaemons,
			func(l model.MissingDaemon) bool { return j.s.Now.Sub(l.Since) >= time.Minute })
		full := false
		for i := range n.Used {
			full = full || n.Used[i] > n.Allocatable[i]
		}
		if !d.ReplaceCrowded || !waits || !full {
			j.fail("crowded", object, "no DaemonSet pod lacks room on it, or pool %s does not replace such nodes", n.Pool)
		}
	}
}

// helps: a node without room for a DaemonSet's pod is not replaced with one of the same type that gets all its pods.
func (j *disruption) helps(c *model.Command) {
	if c.Method != model.CrowdedOut || len(c.Launches) != 1 || len(c.Placements) > 0 {
		return
	}
	for _, r := range c.Removals {
		n := j.node(r.Node)
		if n == nil || j.pools[n.Pool] == nil || j.pools[n.Pool].pool.Static {
			continue
		}
		if slices.Contains(c.Launches[0].Types, n.Type) {
			j.fail("crowded", "command "+c.ID, "another %s has no more room than %s", n.Type, n.Name)
		}
	}
}

// finished: no Job's pod is moved that will finish before moving it pays, taken alone: the cost of its run so far
// exceeds what the command saves until it ends.
func (j *disruption) finished(c *model.Command, victims []*model.Node) {
	for _, n := range victims {
		if !j.pools[n.Pool].pool.Disruption.WaitForJobs {
			continue
		}
		for i := range n.Pods {
			p := &n.Pods[i]
			if p.Job == nil || !leaves(p) || j.shapeAt(p.Shape) == nil {
				continue
			}
			left, known := likelyLeft(p.Job, j.s.Now)
			part := 0.0
			for _, r := range []int{model.CPU, model.Memory} {
				if have := n.Allocatable[r]; have > 0 {
					part = min(max(part, float64(j.shapeAt(p.Shape).Requests[r])/float64(have)), 1)
				}
			}
			lost := float64(n.Price) * part * max(j.s.Now.Sub(p.Job.Started), 0).Seconds()
			if known && lost > 1.000001*float64(c.Saves)*left.Seconds() {
				j.fail("job", podName(p.PodKey), "is moved %s before it is likely to be done", left)
			}
		}
	}
}

// likelyLeft estimates how long a Job's pod will keep running: the median of the earlier runs that took longer than
// this one has, at most until its deadline.
func likelyLeft(run *model.JobRun, now time.Time) (time.Duration, bool) {
	var ends []time.Time
	for _, d := range run.Past {
		if end := run.Started.Add(d); end.After(now) {
			ends = append(ends, end)
		}
	}
	var end time.Time
	if len(ends) > 0 {
		end = ends[len(ends)/2]
	}
	if run.EndsBy.After(now) && (end.IsZero() || run.EndsBy.Before(end)) {
		end = run.EndsBy
	}
	return end.Sub(now), !end.IsZero()
}

// saving: whichever offerings its launches get, the command saves for each node what its pool requires.
func (j *disruption) saving(c *model.Command, victims []*model.Node) {
	var least, total model.Price
	for _, n := range victims {
		d := &j.pools[n.Pool].pool.Disruption
		wanted := max(clamp(d.MinSaving), 0)
		if percent := min(max(d.MinSavingPercent, 0), 100); percent > 0 {
			share := clamp(n.Price) * model.Price(percent)
			wanted = max(wanted, (share+99)/100)
		}
		least += wanted
		total += j.policy.Effective(n.Price)
	}
	if least <= 0 {
		return
	}
	var dearest model.Price
	for i := range c.Launches {
		l := &c.Launches[i]
		if j.pools[l.Pool] == nil {
			return
		}
		most := j.policy.Effective(l.Chosen.Price)
		for _, w := range slices.Concat(j.optionsOf(l)...) {
			most = max(most, j.policy.Effective(w.offer.Price))
		}
		dearest += most
	}
	if total-dearest < least {
		j.fail("saving", "command "+c.ID, "saves %d with the most expensive replacements, its pools require %d",
			total-dearest, least)
	}
}
