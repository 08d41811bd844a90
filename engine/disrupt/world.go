package disrupt

import (
	"cmp"
	"slices"
	"sort"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
)

// world is the cluster as it will be: pods that wait are on the machines where they have their places, and commands that were
// proposed are carried out. Pods that wait for machines which are yet to be launched are not in it: no machine that is there
// matters to them.
type world struct {
	s        *model.Snapshot
	now      *model.Snapshot
	needed   map[string]bool // machines on which pods that wait have their places
	buffered map[string]bool // machines on which room that is kept has its place
	used     map[string]bool // machines to which commands move pods
	closed   map[string]bool // machines to which none may be moved
	apart    bool            // what is launched matters to no other plan
	views    map[destinations]*view
}

func newWorld(s *model.Snapshot, policy model.Policy) *world {
	w := &world{
		s: s, needed: map[string]bool{}, buffered: map[string]bool{}, used: map[string]bool{}, closed: map[string]bool{},
		views: map[destinations]*view{}, apart: apart(s),
	}
	plan := model.Plan{Placements: solve.Placements(s, policy)}
	virtual := map[model.PodKey]bool{}
	for i := range s.Pending {
		if s.Pending[i].Virtual {
			virtual[s.Pending[i].PodKey] = true
		}
	}
	for _, p := range plan.Placements {
		if virtual[p.Pod] {
			w.buffered[p.Node] = true
		} else {
			w.needed[p.Node] = true
		}
	}
	for i := range s.Nodes {
		if s.Nodes[i].State != model.Initialized {
			w.closed[s.Nodes[i].Name] = true // nobody counts on a machine that may never be ready
		}
	}
	w.now = done(s, &plan)
	return w
}

// close says that no pods may be moved to the machine.
func (w *world) close(name string) {
	w.closed[name] = true
	clear(w.views)
}

// apply makes the world the one in which the plan was carried out and the victims are gone.
func (w *world) apply(plan *model.Plan, victims []*model.Node) {
	for _, p := range plan.Placements {
		w.used[p.Node] = true
	}
	if len(plan.Launches) == 0 || w.apart {
		w.moveAway(plan.Placements, victims)
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

// apart reports whether machines that are launched matter to no other plan: no pods are moved to them, no pod looks at those that they were
// launched for, and no pool has limits or replicas for which they would count.
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

// moveAway is apply where nothing that is launched matters: what does not change stays as it is, and so does what is known of it.
func (w *world) moveAway(places []model.Placement, victims []*model.Node) {
	var moving []model.Pod
	var changed []int
	for _, v := range victims {
		if at, ok := find(w.now.Nodes, v.Name); ok {
			moving = w.now.Nodes[at].Drain(w.s.Shapes, moving)
			changed = append(changed, at)
		}
	}
	pods := make(map[model.PodKey]*model.Pod, len(moving))
	for i := range moving {
		pods[moving[i].PodKey] = &moving[i]
	}
	for _, p := range places {
		if at, ok := find(w.now.Nodes, p.Node); ok {
			n := &w.now.Nodes[at]
			n.Pods = slices.Clip(n.Pods)
			settle(w.now, n, pods[p.Pod])
			changed = append(changed, at)
		}
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	for to, v := range w.views { // order does not matter: each is for itself
		for _, at := range changed {
			n := w.now.Nodes[at]
			if n.Deleting = w.shut(to, &n); !n.Deleting && v.s.Nodes[at].Deleting {
				delete(w.views, to) // it takes pods now, for which the view is not prepared
				break
			}
			v.exchange(at, &n)
		}
	}
}

// destinations says where pods may be moved, beside machines that are closed to all.
type destinations struct {
	undrifted bool // only to machines that are not to be replaced themselves
	settled   bool // only to machines whose consolidateAfter is over, and not to empty ones
	nowhere   bool // only to what is launched
}

// open is the world for plans with such destinations: all others take no pods.
func (w *world) open(to destinations) *view {
	if out := w.views[to]; out != nil {
		return out
	}
	out := *w.now
	out.Nodes = slices.Clone(w.now.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].Deleting = w.shut(to, &out.Nodes[i])
	}
	w.views[to] = &view{s: &out}
	return w.views[to]
}

// shut reports whether the machine takes no pods of plans with such destinations.
func (w *world) shut(to destinations, n *model.Node) bool {
	return n.Deleting || to.nowhere || w.closed[n.Name] || to.undrifted && w.outdated(n) || to.settled && w.unsettled(n)
}

// unsettled reports whether the machine is still inside its pool's consolidateAfter, so that pods which come would have been
// better off waiting, or is empty and so only waits for its budget.
func (w *world) unsettled(n *model.Node) bool {
	p := poolOf(w.s, n)
	if p == nil || n.Claim == "" || p.Static || p.Disruption.Never {
		return false
	}
	after := p.Disruption.ConsolidateAfter
	return after > 0 && w.s.Now.Before(quietSince(n).Add(after)) || !occupied(n)
}

// poolOf is the machine's pool, nil if there is none. Pools are large: none is copied to be compared.
func poolOf(s *model.Snapshot, n *model.Node) *model.Pool {
	for i := range s.Pools {
		if s.Pools[i].Name == n.Pool {
			return &s.Pools[i]
		}
	}
	return nil
}

// done is the cluster after a plan: pods are where they are placed, and machines that are launched are on their way with
// theirs. Nobody waits any more.
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
		if at, ok := find(out.Nodes, p.Node); ok {
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
	out.Pools = slices.Clone(s.Pools)
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

// settle puts a pod on a machine, whose list of pods is nobody else's.
func settle(s *model.Snapshot, n *model.Node, p *model.Pod) {
	n.Pods = append(n.Pods, model.BoundPod{Pod: *p, EvictionCost: 1000})
	if p.Shape >= 0 && p.Shape < len(s.Shapes) {
		n.Used = n.Used.Plus(s.Shapes[p.Shape].Requests)
	}
}

// launched is a launch as a machine on its way without pods, counted in its pool's usage.
func launched(s *model.Snapshot, l *model.Launch) model.Node {
	n := model.Node{Name: launchName(l), Claim: launchName(l), Pool: l.Pool, Price: l.Chosen.Price, Labels: l.Requirements}
	i := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == l.Pool })
	p := &s.Pools[i]
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

// launchName is by what a machine that is to be launched goes.
func launchName(l *model.Launch) string { return "launch " + l.ID }

// find is the index of the node with the name. Nodes are large: none is copied to be compared.
func find(nodes []model.Node, name string) (int, bool) {
	i := sort.Search(len(nodes), func(i int) bool { return nodes[i].Name >= name })
	return i, i < len(nodes) && nodes[i].Name == name
}
