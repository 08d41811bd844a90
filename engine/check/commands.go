package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// command: its nodes may be removed by its method, and its saving and cost are right.
func (j *disruption) command(c *model.Command) {
	object := "command " + c.ID
	if c.ID == "" || len(c.Removals) == 0 {
		j.fail("identity", object, "has no identity, or removes no node")
	}
	var victims []*model.Node
	var saves model.Price
	cost := int64(0)
	for _, r := range c.Removals {
		n := j.goes(r)
		if n == nil {
			continue
		}
		victims = append(victims, n)
		saves += j.policy.Effective(n.Price)
		cost += j.victim(n, c, r)
		switch c.Method {
		case model.Drifted, model.Expired, model.CrowdedOut:
			j.going[n.Pool].drifted++
		case model.Underutilized:
			j.going[n.Pool].underused++
		default:
			j.fail("method", object, "method %q is none of a command", c.Method)
		}
	}
	for i := range c.Launches {
		saves -= j.policy.Effective(c.Launches[i].Chosen.Price)
	}
	if saves != c.Saves || cost != c.Cost {
		j.fail("price", object, "saves %d and costs %d, not %d and %d", saves, cost, c.Saves, c.Cost)
	}
	if c.Method == model.Underutilized {
		j.worthwhile(c, victims)
		j.saving(c, victims)
		j.finished(c, victims)
	}
	j.helps(c)
	j.addressed(c.Launches)
	if j.policy.Preflight == model.Enforce && j.s.Unsettled != "" && c.Method != model.CrowdedOut {
		j.fail("preflight", object, "moves pods although %s", j.s.Unsettled)
	}
}

// victim judges a node that a command removes, and returns what its removal costs.
func (j *disruption) victim(n *model.Node, c *model.Command, r model.Removal) int64 {
	object, d := "node "+n.Name, &j.pools[n.Pool].pool.Disruption
	if r.Method != c.Method {
		j.fail("method", object, "is removed as %s by a command for %s", r.Method, c.Method)
	}
	j.disruptable(n)
	cost := int64(1000)
	for i := range n.Pods {
		p := &n.Pods[i]
		there := !p.Terminal && !p.Terminating
		if there && (p.DoNotDisrupt || p.EvictionBlocked != "") && (c.Method != model.Drifted || !n.Deadline) {
			j.fail("disruptable", object, "%s must not be disrupted", podName(p.PodKey))
		}
		if leaves(p) {
			cost += int64(max(p.EvictionCost, 0))
		}
	}
	j.mayGo(n, c.Method)
	j.due(n, c.Method)
	switch {
	case c.Method == model.Underutilized && (d.Never || d.WhenEmptyOnly || j.pools[n.Pool].pool.Static):
		j.fail("consolidation", object, "is of pool %s, which is not consolidated", n.Pool)
	case c.Method == model.Underutilized && (!j.quiet(n) || n.Price <= 0):
		j.fail("consolidateAfter", object, "is not quiet for long enough, or its price is not known")
	}
	return cost
}

// moves: in the cluster without the removed nodes, each of their pods that has to move has a placement or a launch.
func (j *disruption) moves() {
	if len(j.plan.Commands) == 0 {
		return
	}
	victims, all := map[string]bool{}, model.Plan{}
	for i := range j.plan.Commands {
		for _, r := range j.plan.Commands[i].Removals {
			victims[r.Node] = true
		}
		all.Launches = append(all.Launches, j.plan.Commands[i].Launches...)
		all.Placements = append(all.Placements, j.plan.Commands[i].Placements...)
	}
	for _, r := range j.plan.Removals {
		victims[r.Node] = true
	}
	together := newJudge(j.without(victims), j.policy, &all)
	together.placements()
	launches{together}.all()
	together.limits()
	together.addresses(all.Launches)
	j.found = append(j.found, together.found...)
	for i := range j.plan.Commands {
		j.moved(&j.plan.Commands[i], victims)
	}
}

// moved judges one command alone. Commands may depend on each other, and on pending and expected pods whose placements
// this plan does not contain: then violations between pods are unproven.
func (j *disruption) moved(c *model.Command, going map[string]bool) {
	own := map[string]bool{}
	for _, r := range c.Removals {
		own[r.Node] = true
	}
	plan := &model.Plan{Placements: c.Placements, Launches: c.Launches}
	alone := newJudge(j.without(own), j.policy, plan)
	newCoexistence(alone).all()
	for _, v := range alone.found {
		v.Unproven = v.Unproven || len(j.plan.Commands) > 1 || len(j.s.Pending)+len(j.s.Expected) > 0
		j.found = append(j.found, v)
	}
	answers := map[model.PodKey]int{}
	for _, p := range c.Placements {
		answers[p.Pod]++
		if n := j.node(p.Node); n != nil && (n.State != model.Initialized || going[n.Name]) {
			j.fail("takes pods", podName(p.Pod), "is to move to %s, which is not initialized or is removed too", p.Node)
		}
	}
	for i := range c.Launches {
		for _, k := range c.Launches[i].Pods {
			answers[k]++
		}
	}
	for _, r := range c.Removals {
		n := j.node(r.Node)
		if n == nil || j.pools[n.Pool] != nil && j.pools[n.Pool].pool.Static {
			continue // a static pool's replacement is as good as the removed node
		}
		for i := range n.Pods {
			if p := &n.Pods[i]; leaves(p) && answers[p.PodKey] != 1 {
				j.fail("moves", podName(p.PodKey), "has to leave %s and has %d places", n.Name, answers[p.PodKey])
			}
		}
	}
}

// leaves reports whether the pod needs another node when its node is removed.
func leaves(p *model.BoundPod) bool {
	if p.Daemon || p.Terminal {
		return false
	}
	if p.Terminating {
		return p.Returns // whatever protects it, it leaves
	}
	return !p.DoNotDisrupt && p.EvictionBlocked == ""
}

// without returns the cluster in which those nodes accept no pods and the pods that leave them are pending, together
// with reserved capacity.
func (j *disruption) without(victims map[string]bool) *model.Snapshot {
	out := *j.s
	out.Pending, out.Nodes = nil, slices.Clone(j.s.Nodes)
	for i := range j.s.Pending {
		if j.s.Pending[i].Virtual {
			out.Pending = append(out.Pending, j.s.Pending[i])
		}
	}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		if !victims[n.Name] {
			continue
		}
		n.Deleting = true
		var stay []model.BoundPod
		for _, p := range n.Pods {
			if leaves(&p) {
				out.Pending = append(out.Pending, p.Pod)
			} else {
				stay = append(stay, p)
			}
		}
		n.Pods = stay
	}
	return &out
}
