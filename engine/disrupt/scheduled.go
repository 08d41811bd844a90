package disrupt

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
)

// astray is what kube-scheduler would make of a proposal that it breaks.
type astray struct {
	left       []model.Pod    // without a place
	onLaunched []model.PodKey // those that it would put on what is launched
}

// fragile says which pod of a proposal may be left without a place though the plan has one for it: kube-scheduler does not know the
// plan. Each pod goes to the machine of which it leaves most (NodeResourcesFit LeastAllocated, the default). Where that is not enough
// another machine would be launched, and be consolidated, and launched again. The pods are tried in several orders.
func (c *consolidation) fragile(p *proposal) (model.Reason, astray) {
	moving := slices.DeleteFunc(slices.Clone(p.moving), func(x model.Pod) bool { return x.Virtual })
	if len(moving) < 2 {
		return model.Reason{}, astray{} // it has the choice that the plan had
	}
	return c.survives(p, moving, func(places *solve.Places) (state *rules.State, launched []int) {
		if len(p.plan.Launches) == 0 {
			return places.State(), nil
		}
		s, state := *c.world.now, places.State().Fork()
		s.Pools = slices.Clone(s.Pools)
		for i := range p.plan.Launches {
			launched = append(launched, state.AddNode(ready(&s, &p.plan.Launches[i], p.moving)))
		}
		return state, launched
	})
}

// ready is a launch as a machine that is ready and has no pods yet but those of its DaemonSets.
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

// orders are in which pods are tried: as they come, the smallest first, which is the worst there is, and the largest first. The smallest
// go where most is free without them: counted with them, they would go to the larger of two new machines until what it is for has no room.
var orders = []order{{}, {by: 1, without: true}, {by: -1}}

// order is one of pods that are placed one after another.
type order struct {
	by      int  // 1: the smallest first, -1: the largest first, 0: as they come
	without bool // they go to the machine of which most is free without them
}

func (o order) sort(shapes []model.Shape, pods []model.Pod) {
	size := func(x *model.Pod) int64 { return shapes[x.Shape].Requests[model.CPU] }
	slices.SortStableFunc(pods, func(a, b model.Pod) int { return o.by * cmp.Compare(size(&a), size(&b)) })
}

// survives says which of the pods finds no place in one of the orders, and what becomes of all of them in that one. What is launched are
// nodes of the state that it is given.
func (c *consolidation) survives(p *proposal, moving []model.Pod, in func(*solve.Places) (*rules.State, []int)) (out model.Reason, wrong astray) {
	emptiest, there := c.world.open(destinations{settled: true}).byFreeShare(), len(c.world.now.Nodes)
	c.without(p, func(places *solve.Places) {
		state, launched := in(places)
		for _, by := range orders {
			wrong = astray{}
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

// spare is how much of a machine is free.
type spare struct {
	node int
	free float64
}

func (a spare) before(b spare) bool { return a.free > b.free || a.free == b.free && a.node < b.node }

func (a spare) compare(b spare) int {
	return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.node, b.node))
}

func takesPods(n *model.Node) bool { return !n.Deleting && !n.Cordoned }

// ranking is the machines that may take pods, those first of which most is free, of equal ones the first.
type ranking struct {
	machines []spare
	largest  model.Resources // no machine has more
}

func byFreeShare(state *rules.State) *ranking {
	out := &ranking{}
	for i := range state.Nodes() {
		n := state.Node(i)
		if out.largest = out.largest.Max(n.Allocatable); takesPods(n) {
			out.machines = append(out.machines, spare{i, freeShare(state, i)})
		}
	}
	slices.SortFunc(out.machines, spare.compare)
	return out
}

// remove takes a machine out.
func (r *ranking) remove(at spare) {
	if i, found := slices.BinarySearchFunc(r.machines, at, spare.compare); found {
		r.machines = slices.Delete(r.machines, i, i+1)
	}
}

// add puts a machine in that was there before.
func (r *ranking) add(at spare) {
	i, _ := slices.BinarySearchFunc(r.machines, at, spare.compare)
	r.machines = slices.Insert(r.machines, i, at)
}

// least is what a pod that asks so much takes at least of any machine's share.
func (r *ranking) least(asks *model.Resources) float64 {
	const rounding = 1e-9
	return shareOf(asks, &r.largest) - rounding
}

// shareOf is how much of a machine's CPU and memory so much is.
func shareOf(asks, all *model.Resources) (sum float64) {
	for _, r := range []int{model.CPU, model.Memory} {
		if all[r] > 0 {
			sum += float64(asks[r]) / float64(all[r])
		}
	}
	return sum
}

// scheduled places the pods one after another as kube-scheduler would, and tells of each where. It gives those that find no place. The machines
// are ranked as they are before; those beside are not.
func scheduled(state *rules.State, shapes []model.Shape, emptiest *ranking, beside []int, pods []model.Pod, by order, told func(x model.Pod, node int)) []model.Pod {
	used := slices.Clone(beside) // and by pods that were placed
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
			if (best.node < 0 || at.before(best)) && state.Allows(x.Shape, node) == "" {
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
		for _, at := range emptiest.machines {
			if best.node >= 0 && (at.free-least < best.free || by.without && best.before(at)) {
				break // after the pod there is less
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
	for len(waiting) > 0 && len(waiting) != before { // who needs others near waits for them
		before = len(waiting)
		waiting = slices.DeleteFunc(waiting, place)
	}
	return waiting
}

// freeShare is how much of a machine's CPU and memory is free.
func freeShare(state *rules.State, node int) float64 {
	sum, all := 0.0, &state.Node(node).Allocatable
	for _, r := range []int{model.CPU, model.Memory} {
		if all[r] > 0 {
			sum += float64(state.FreeOf(node, r)) / float64(all[r])
		}
	}
	return sum
}

// free is how much of it is free for what kube-scheduler, or the order, says of a pod that asks so much.
func (o order) free(state *rules.State, node int, asks *model.Resources) float64 {
	free := freeShare(state, node)
	if !o.without {
		free -= shareOf(asks, &state.Node(node).Allocatable)
	}
	return free
}
