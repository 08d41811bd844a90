package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// tally counts the removed nodes of a pool by reason.
type tally struct{ empty, drifted, underused, surplus int }

// disruption judges the nodes that a plan removes.
type disruption struct {
	*judge
	going map[string]*tally // by pool
	seen  map[string]bool   // nodes that are removed, by name
}

func newDisruption(j *judge) *disruption {
	d := &disruption{judge: j, going: map[string]*tally{}, seen: map[string]bool{}}
	for i := range j.s.Pools {
		d.going[j.s.Pools[i].Name] = &tally{}
	}
	return d
}

// removals: only disruptable nodes are removed, each once, within the budgets of their pools.
func (j *disruption) removals() {
	placed := map[string]bool{}
	for _, p := range j.plan.Placements {
		placed[p.Node] = true
	}
	for _, r := range j.plan.Removals {
		if n := j.goes(r); n != nil {
			if placed[r.Node] {
				j.fail("needed", "node "+r.Node, "is removed although a pod is placed there")
			}
			j.removed(n, r.Method, j.going[n.Pool])
		}
	}
	for i := range j.plan.Commands {
		j.command(&j.plan.Commands[i])
	}
	for i := range j.s.Pools {
		p := &j.s.Pools[i]
		j.budgets(p, j.going[p.Name])
		j.replicas(p, j.going[p.Name].surplus)
		j.minimum(p)
	}
}

// goes judges what holds for every removed node, and returns the node; nil if it cannot be judged further.
func (j *disruption) goes(r model.Removal) *model.Node {
	n, object := j.node(r.Node), "node "+r.Node
	if n == nil || j.pools[n.Pool] == nil || j.seen[r.Node] {
		j.fail("exists", object, "is removed twice, or it or its pool is not in the snapshot")
		return nil
	}
	j.seen[r.Node] = true
	if n.Claim == "" || n.Claim != r.Claim || n.Pool != r.Pool || j.policy.Effective(n.Price) != r.Saves {
		j.fail("managed", object, "the removal is not about claim %q of pool %q", n.Claim, n.Pool)
	}
	if n.Deleting {
		j.fail("disruptable", object, "is being deleted already")
	}
	return n
}

// removed judges a node that is removed without replacement.
func (j *disruption) removed(n *model.Node, m model.Method, t *tally) {
	object, pool := "node "+n.Name, j.pools[n.Pool].pool
	switch m {
	case model.Empty:
		t.empty++
		if pool.Static {
			j.fail("replicas", object, "is removed as empty, but pool %s is static", pool.Name)
		}
		if pool.Disruption.Never || !j.quiet(n) {
			j.fail("consolidateAfter", object, "is not quiet for long enough")
		}
	case model.Drifted, model.Expired, model.CrowdedOut:
		t.drifted++
		j.due(n, m)
	case model.Overprovisioned:
		t.surplus++
		return
	default:
		j.fail("method", object, "method %q is not known", m)
	}
	j.mayGo(n, m)
	j.disruptable(n)
	for _, p := range n.Pods {
		ends := p.Terminal || p.Terminating && !p.Returns
		held := p.DoNotDisrupt && !p.Terminal && !p.Terminating && (m != model.Drifted || !n.Deadline)
		if !ends && !p.Daemon || held {
			j.fail("empty", object, "%s is still there", podName(p.PodKey))
		}
	}
}

// quiet reports whether the node's consolidateAfter has passed.
func (j *disruption) quiet(n *model.Node) bool {
	since := n.Initialized
	if n.LastPodEvent.After(since) {
		since = n.LastPodEvent
	}
	return !j.s.Now.Before(since.Add(j.pools[n.Pool].pool.Disruption.ConsolidateAfter))
}

// budgets: removals for one reason, together with those for earlier reasons, stay within its budget: one budget may
// apply to several reasons.
func (j *disruption) budgets(p *model.Pool, t *tally) {
	d := &p.Disruption
	if t.empty > max(d.AllowedEmpty, 0) || t.drifted > 0 && t.empty+t.drifted > d.AllowedDrifted ||
		t.underused > 0 && t.empty+t.drifted+t.underused > d.AllowedUnderused {
		j.fail("budget", "pool "+p.Name, "%d empty, %d drifted and %d underutilized nodes are removed, allowed are %d, %d "+
			"and %d", t.empty, t.drifted, t.underused, d.AllowedEmpty, d.AllowedDrifted, d.AllowedUnderused)
	}
}

// replicas: a static pool gets no more nodes than replicas, and loses only those beyond them.
func (j *disruption) replicas(p *model.Pool, surplus int) {
	if !p.Static {
		if surplus > 0 {
			j.fail("replicas", "pool "+p.Name, "is not static, and %d nodes exceed its replicas", surplus)
		}
		return
	}
	running := int64(0)
	for i := range j.s.Nodes {
		if n := &j.s.Nodes[i]; n.Pool == p.Name && n.Claim != "" && !n.Deleting {
			running++
		}
	}
	launches := int64(0)
	for i := range j.plan.Launches {
		if j.plan.Launches[i].Pool == p.Name {
			launches++
		}
	}
	if launches > max(p.Replicas-running, 0) || int64(surplus) > max(running-max(p.Replicas, 0), 0) {
		j.fail("replicas", "pool "+p.Name, "%d of %d run, %d are launched, %d removed as surplus", running, p.Replicas,
			launches, surplus)
	}
	for i := range j.plan.Commands { // nodes of static pools are replaced one for one
		c := &j.plan.Commands[i]
		out := len(slices.DeleteFunc(slices.Clone(c.Removals), func(r model.Removal) bool { return r.Pool != p.Name }))
		in := len(slices.DeleteFunc(slices.Clone(c.Launches), func(l model.Launch) bool { return l.Pool != p.Name }))
		if in != out {
			j.fail("replicas", "command "+c.ID, "%d nodes of static pool %s are replaced by %d", out, p.Name, in)
		}
	}
}

// minimum: a pool loses no node that it must keep, not even in exchange for another.
func (j *disruption) minimum(p *model.Pool) {
	left, going := int64(0), false
	for i := range j.s.Nodes {
		n := &j.s.Nodes[i]
		if n.Pool != p.Name || n.Claim == "" || n.Deleting {
			continue
		}
		if j.seen[n.Name] {
			going = true
		} else {
			left++
		}
	}
	if going && left < p.MinNodes {
		j.fail("minimum", "pool "+p.Name, "%d nodes are left, it keeps %d", left, p.MinNodes)
	}
}

// disruptable judges whether a node may be disrupted at all.
func (j *disruption) disruptable(n *model.Node) {
	if n.State != model.Initialized || n.DoNotDisrupt {
		j.fail("disruptable", "node "+n.Name, "is not initialized, or must not be disrupted")
	}
	if p := j.pools[n.Pool]; p != nil && p.pool.Unread {
		j.fail("disruptable", "node "+n.Name, "is removed although its node class was not read yet")
	}
}
