package engine

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
)

// misplaced is what kube-scheduler would do differently from a fragile proposal.
type misplaced struct {
	left       []model.Pod    // left pending
	onLaunched []model.PodKey // put on launched nodes
}

// fragile returns a Reason naming a pod of the proposal that may stay pending although the plan places it.
// kube-scheduler does not know the plan: it puts each pod on the node with the largest free share (NodeResourcesFit
// LeastAllocated, the default). If a pod stayed pending, another node would be launched, consolidated, and launched
// again. Pods are tried in several orders.
func (c *proposals) fragile(p *proposal) (model.Reason, misplaced) {
	moving := slices.DeleteFunc(slices.Clone(p.moving), func(x model.Pod) bool { return x.Virtual })
	if len(moving) < 2 {
		return model.Reason{}, misplaced{} // kube-scheduler has the same choice as the plan
	}
	return c.survives(p, moving, func(places *solve.Cluster) (state *rules.State, launched []int) {
		if len(p.plan.Launches) == 0 {
			return places.State(), nil
		}
		s, state := *c.projected.now, places.State().Fork()
		s.Pools = slices.Clone(s.Pools)
		for i := range p.plan.Launches {
			launched = append(launched, state.AddNode(ready(&s, &p.plan.Launches[i], p.moving)))
		}
		return state, launched
	})
}

// ready returns a launch as an initialized node whose only pods are those of its DaemonSets.
func ready(s *model.Snapshot, l *model.Launch, pods []model.Pod) model.Node {
	n := launched(s, l)
	n.State, n.Used = model.Initialized, l.Requests
	for i := range pods {
		if slices.Contains(l.Pods, pods[i].PodKey) {
			n.Used = n.Used.Minus(s.Shapes[pods[i].Shape].Requests.NonNegative())
		}
	}
	return n
}

// orders are the orders in which pods are tried: as given; the smallest first, which is the worst; and the largest
// first. If the smallest come first, nodes are ranked by their free share without the pod. Ranked with it, the
// smallest pods would all go to the largest of the new nodes until the pods for which it was chosen no longer fit.
var orders = []order{{}, {by: 1, without: true}, {by: -1}}

// order is the order in which pods are placed one after another.
type order struct {
	by      int  // 1: the smallest first, -1: the largest first, 0: as given
	without bool // nodes are ranked by their free share without the pod
}

func (o order) sort(shapes []model.Shape, pods []model.Pod) {
	size := func(x *model.Pod) int64 { return shapes[x.Shape].Requests[model.CPU] }
	slices.SortStableFunc(pods, func(a, b model.Pod) int { return o.by * cmp.Compare(size(&a), size(&b)) })
}

// survives tries each order and returns a Reason naming a pod left pending in one of them, and what happens to all
// pods in that order. The indices that in returns identify the launches among the nodes of the state.
func (c *proposals) survives(
	p *proposal, moving []model.Pod, in func(*solve.Cluster) (*rules.State, []int),
) (out model.Reason, wrong misplaced) {
	emptiest, there := c.projected.open(destinations{settled: true}).byFreeShare(), len(c.projected.now.Nodes)
	c.without(p, func(places *solve.Cluster) {
		state, launched := in(places)
		for _, by := range orders {
			wrong = misplaced{}
			by.sort(c.s.Shapes, moving)
			state.Try(func() {
				wrong.left = scheduled(state, c.s.Shapes, emptiest, launched, moving, by, func(x model.Pod, node int) {
					if node >= there {
						wrong.onLaunched = append(wrong.onLaunched, x.PodKey)
					}
				})
			})
			if len(wrong.left) > 0 {
				out = model.Reason{Rule: model.RuleFragile, Object: podName(wrong.left[0].PodKey)}
				return
			}
		}
	})
	return out, wrong
}

// spare is the free share of a node.
type spare struct {
	node int
	free float64
}

func (a spare) compare(b spare) int {
	return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.node, b.node))
}

func takesPods(n *model.Node) bool { return !n.Deleting && !n.Cordoned }

// ranking lists the nodes that accept pods by free share, largest first, then by index.
type ranking struct {
	nodes   []spare
	largest model.Resources // maximum of any node
}

func byFreeShare(state *rules.State) *ranking {
	out := &ranking{}
	for i := range state.Nodes() {
		n := state.Node(i)
		if out.largest = out.largest.Max(n.Allocatable); takesPods(n) {
			out.nodes = append(out.nodes, spare{i, freeShare(state, i)})
		}
	}
	slices.SortFunc(out.nodes, spare.compare)
	return out
}

// remove takes a node out.
func (r *ranking) remove(at spare) {
	if i, found := slices.BinarySearchFunc(r.nodes, at, spare.compare); found {
		r.nodes = slices.Delete(r.nodes, i, i+1)
	}
}

// add puts a node back.
func (r *ranking) add(at spare) {
	i, _ := slices.BinarySearchFunc(r.nodes, at, spare.compare)
	r.nodes = slices.Insert(r.nodes, i, at)
}

// least returns a lower bound on the share of a node that the request takes, for any node.
func (r *ranking) least(asks *model.Resources) float64 {
	const rounding = 1e-9
	return shareOf(asks, &r.largest) - rounding
}

// shareOf returns the sum of the fractions of CPU and memory that the request takes.
func shareOf(asks, all *model.Resources) (sum float64) {
	for _, r := range []int{model.CPU, model.Memory} {
		if all[r] > 0 {
			sum += float64(asks[r]) / float64(all[r])
		}
	}
	return sum
}

// scheduled places pods one after another as kube-scheduler would, reports each placement to told, and returns the
// pods left pending. emptiest ranks the nodes by their free share before the call; the nodes in beside are not
// ranked.
func scheduled(state *rules.State, shapes []model.Shape, emptiest *ranking, beside []int, pods []model.Pod, by order,
	told func(x model.Pod, node int),
) []model.Pod {
	used := slices.Clone(beside) // nodes whose rank is not valid: unranked ones and those that took pods
	in := make([]bool, state.Nodes())
	for _, i := range used {
		in[i] = true
	}
	place := func(x model.Pod) bool {
		best := spare{node: -1}
		try := func(node int) {
			if !state.HasRoom(x.Shape, node) {
				return
			}
			at := spare{node, by.free(state, node, &shapes[x.Shape].Requests)}
			if (best.node < 0 || at.compare(best) < 0) && state.Allows(x.Shape, node) == "" {
				best = at
			}
		}
		for _, i := range used {
			try(i)
		}
		least := 0.0
		if !by.without {
			least = emptiest.least(&shapes[x.Shape].Requests)
		}
		for _, at := range emptiest.nodes {
			if best.node >= 0 && (at.free-least < best.free || by.without && best.compare(at) < 0) {
				break // no remaining node ranks higher
			}
			if !in[at.node] {
				try(at.node)
			}
		}
		if best.node < 0 {
			return false
		}
		state.Bind(x.Shape, best.node)
		told(x, best.node)
		if !in[best.node] {
			in[best.node], used = true, append(used, best.node)
		}
		return true
	}
	waiting, before := slices.Clone(pods), -1
	for len(waiting) > 0 && len(waiting) != before { // pods with affinity to others wait for them
		before = len(waiting)
		waiting = slices.DeleteFunc(waiting, place)
	}
	return waiting
}

// freeShare returns the sum of the fractions of CPU and memory that are free.
func freeShare(state *rules.State, node int) float64 {
	sum, all := 0.0, &state.Node(node).Allocatable
	for _, r := range []int{model.CPU, model.Memory} {
		if all[r] > 0 {
			sum += float64(state.FreeOf(node, r)) / float64(all[r])
		}
	}
	return sum
}

// free returns the share that ranks the node for a pod with such a request.
func (o order) free(state *rules.State, node int, asks *model.Resources) float64 {
	free := freeShare(state, node)
	if !o.without {
		free -= shareOf(asks, &state.Node(node).Allocatable)
	}
	return free
}
