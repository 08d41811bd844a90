package engine

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
)

// projection is the cluster as it will be: pending pods run on the nodes where they are placed, and proposed commands
// have been carried out. Pending pods that wait for launches are left out, since they use no existing node.
type projection struct {
	s        *model.Snapshot
	now      *model.Snapshot
	needed   map[string]bool // nodes on which pending pods are placed
	buffered map[string]bool // nodes on which reserved capacity is placed
	used     map[string]bool // nodes to which commands move pods
	closed   map[string]bool // nodes to which no pods may be moved
	apart    bool            // launches influence other plans only by their addresses
	views    map[destinations]*overlay
	memory   *solve.Memory // of what-ifs; nil = none
}

func newProjection(s *model.Snapshot, policy model.Policy) *projection {
	w := &projection{
		s: s, needed: map[string]bool{}, buffered: map[string]bool{}, used: map[string]bool{}, closed: map[string]bool{},
		views: map[destinations]*overlay{}, apart: apart(s),
	}
	plan := model.Plan{Placements: solve.Placements(s, policy)}
	virtual := s.Placeholders()
	for _, p := range plan.Placements {
		if virtual[p.Pod] {
			w.buffered[p.Node] = true
		} else {
			w.needed[p.Node] = true
		}
	}
	for i := range s.Nodes {
		if s.Nodes[i].State != model.Initialized {
			w.closed[s.Nodes[i].Name] = true // no plan relies on a node that may never be ready
		}
	}
	w.now = done(s, &plan)
	return w
}

// close excludes the node as a destination.
func (w *projection) close(name string) {
	w.closed[name] = true
	clear(w.views)
}

// apply carries out the plan and removes the victims.
func (w *projection) apply(plan *model.Plan, victims []*model.Node) {
	for _, p := range plan.Placements {
		w.used[p.Node] = true
	}
	if len(plan.Launches) == 0 || w.apart {
		w.moveAway(plan.Placements, victims)
		w.takeAddresses(plan.Launches)
		return
	}
	names := make(map[string]bool, len(victims))
	for _, n := range victims {
		names[n.Name] = true
	}
	w.now = done(w.now.Draining(names), plan)
	for i := range plan.Launches {
		w.closed[launchName(&plan.Launches[i])] = true
	}
	clear(w.views)
}

// takeAddresses takes the addresses of launches from the subnets. It keeps everything computed that it does not change.
func (w *projection) takeAddresses(launches []model.Launch) {
	if len(launches) == 0 || len(w.now.Subnets) == 0 {
		return
	}
	w.now.Subnets = solve.AfterLaunches(w.now, launches)
	for _, v := range w.views { // order does not matter: each is independent
		v.setSubnets(w.now.Subnets)
	}
}

// apart reports whether launches influence no other plan, except that they take addresses from subnets: no pods move to
// launched nodes, no pods depend on the pods they are launched for, and they count against no limits or replicas.
func apart(s *model.Snapshot) bool {
	for i := range s.Pools {
		if p := &s.Pools[i]; p.Static || p.Limits.NodesSet || rules.Limited(&p.Limits) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Shapes, func(x model.Shape) bool {
		return len(x.Affinity)+len(x.AntiAffinity)+len(x.PreferredPods)+len(x.Spread)+len(x.Volumes) > 0
	})
}

// moveAway moves the pods of a plan whose launches influence no other plan. It keeps the nodes that do not change, and
// everything computed from them.
func (w *projection) moveAway(places []model.Placement, victims []*model.Node) {
	var moving []model.Pod
	var changed []int
	for _, v := range victims {
		if at := w.now.NodeIndex(v.Name); at >= 0 {
			moving = w.now.Nodes[at].Drain(w.s.Shapes, moving)
			changed = append(changed, at)
		}
	}
	pods := make(map[model.PodKey]*model.Pod, len(moving))
	for i := range moving {
		pods[moving[i].PodKey] = &moving[i]
	}
	for _, p := range places {
		if at := w.now.NodeIndex(p.Node); at >= 0 {
			n := &w.now.Nodes[at]
			n.Pods = slices.Clip(n.Pods)
			settle(w.now, n, pods[p.Pod])
			changed = append(changed, at)
		}
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	for to, v := range w.views { // order does not matter: each is independent
		for _, at := range changed {
			n := w.now.Nodes[at]
			if n.Deleting = w.shut(to, &n); !n.Deleting && v.s.Nodes[at].Deleting {
				delete(w.views, to) // the node accepts pods again, which the overlay is not prepared for
				break
			}
			v.exchange(at, &n)
		}
	}
}

// destinations restricts where pods may be moved, in addition to closed nodes.
type destinations struct {
	undrifted bool // only to nodes that are not to be replaced themselves
	settled   bool // only to nodes whose consolidateAfter has passed and that are not empty
	nowhere   bool // only to launched nodes
}

// open returns the overlay for plans with these destinations; all other nodes accept no pods.
func (w *projection) open(to destinations) *overlay {
	if out := w.views[to]; out != nil {
		return out
	}
	out := *w.now
	out.Nodes = slices.Clone(w.now.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].Deleting = w.shut(to, &out.Nodes[i])
	}
	w.views[to] = &overlay{s: &out, memory: w.memory}
	return w.views[to]
}

// shut reports whether the node accepts no pods from plans with these destinations.
func (w *projection) shut(to destinations, n *model.Node) bool {
	return n.Deleting || to.nowhere || w.closed[n.Name] || to.undrifted && w.outdated(n) || to.settled && w.unsettled(n)
}

// unsettled reports whether pods should not move to the node because they might have to move again: its pool's
// consolidateAfter has not passed, or it is empty and only its budget keeps it.
func (w *projection) unsettled(n *model.Node) bool {
	p := w.s.Pool(n.Pool)
	if p == nil || n.Claim == "" || p.Static || p.Disruption.Never {
		return false
	}
	after := p.Disruption.ConsolidateAfter
	return after > 0 && w.s.Now.Before(quietSince(n).Add(after)) || !occupied(n)
}

// done returns the cluster after a plan: pods are where they are placed, launches are nodes in flight with their pods
// and addresses, and nothing is pending.
func done(s *model.Snapshot, plan *model.Plan) *model.Snapshot {
	out := *s
	out.Pending = nil
	out.Nodes = slices.Clone(s.Nodes)
	pods := make(map[model.PodKey]*model.Pod, len(s.Pending))
	for i := range s.Pending {
		pods[s.Pending[i].PodKey] = &s.Pending[i]
	}
	ours := map[int]bool{} // the nodes whose pods may be appended to
	for _, p := range plan.Placements {
		if at := out.NodeIndex(p.Node); at >= 0 {
			n := &out.Nodes[at]
			if !ours[at] {
				ours[at], n.Pods = true, slices.Clip(n.Pods)
			}
			settle(&out, n, pods[p.Pod])
		}
	}
	if len(plan.Launches) == 0 {
		return &out
	}
	out.Pools, out.Subnets = slices.Clone(s.Pools), solve.AfterLaunches(s, plan.Launches)
	for i := range plan.Launches {
		l := &plan.Launches[i]
		n := launched(&out, l)
		n.Pods = make([]model.BoundPod, 0, len(l.Pods))
		for _, k := range l.Pods {
			settle(&out, &n, pods[k])
		}
		out.Nodes = append(out.Nodes, n)
	}
	slices.SortFunc(out.Nodes, func(a, b model.Node) int { return cmp.Compare(a.Name, b.Name) })
	return &out
}

// settle puts a pod on a node, which must not share its list of pods.
func settle(s *model.Snapshot, n *model.Node, p *model.Pod) {
	n.Pods = append(n.Pods, model.BoundPod{Pod: *p, EvictionCost: 1000})
	if p.Shape >= 0 && p.Shape < len(s.Shapes) {
		n.Used = n.Used.Plus(s.Shapes[p.Shape].Requests)
	}
}

// launched returns a launch as a node in flight without pods, and counts it in its pool's usage.
func launched(s *model.Snapshot, l *model.Launch) model.Node {
	n := model.Node{Name: launchName(l), Claim: launchName(l), Pool: l.Pool, Price: l.Chosen.Price, Labels: l.Requirements}
	p := s.Pool(l.Pool)
	n.Taints = p.Taints
	for t := range p.Types {
		if slices.Contains(l.Types, p.Types[t].Name) {
			n.Capacity = n.Capacity.Max(p.Types[t].Capacity)
		}
		if p.Types[t].Name == l.Chosen.Type {
			n.Allocatable = p.Types[t].Allocatable
		}
	}
	p.Usage = p.Usage.Plus(n.Capacity.NonNegative())
	p.NodeCount = max(p.NodeCount, 0) + 1
	return n
}

// launchName names the node of a launch.
func launchName(l *model.Launch) string { return "launch " + l.ID }
