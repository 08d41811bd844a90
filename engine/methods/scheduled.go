package methods

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/pack"
	"github.com/nodeless/nodeless/engine/rules"
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
	if len(p.plan.Launches) == 0 {
		emptiest := c.world.open(destinations{settled: true}).byFreeShare()
		return c.survives(p, moving, func(places *pack.Places) (*rules.State, []spare) { return places.State(), emptiest })
	}
	return c.survives(p, moving, func(places *pack.Places) (*rules.State, []spare) {
		s, state := *c.world.now, places.State().Fresh()
		s.Pools = slices.Clone(s.Pools)
		for i := range p.plan.Launches {
			state.AddNode(ready(&s, &p.plan.Launches[i], p.moving))
		}
		return state, byFreeShare(state)
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

// survives says which of the pods finds no place in one of the orders, and what becomes of all of them in that one.
func (c *consolidation) survives(p *proposal, moving []model.Pod, in func(*pack.Places) (*rules.State, []spare)) (out model.Reason, wrong astray) {
	there := len(c.world.now.Nodes)
	c.without(p, func(places *pack.Places) {
		state, emptiest := in(places)
		for _, by := range orders {
			wrong = astray{}
			by.sort(c.s.Shapes, moving)
			state.Try(func() {
				wrong.left = scheduled(state, c.s.Shapes, emptiest, moving, by, func(x model.Pod, node int) {
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

// byFreeShare are the machines that may take pods, those first of which most is free, of equal ones the first.
func byFreeShare(state *rules.State) []spare {
	var out []spare
	for i := range state.Nodes() {
		if n := state.Node(i); !n.Deleting && !n.Cordoned {
			out = append(out, spare{i, freeShare(state, i)})
		}
	}
	slices.SortFunc(out, func(a, b spare) int { return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.node, b.node)) })
	return out
}

// scheduled places the pods one after another as kube-scheduler would, and tells of each where. It gives those that find no place. The machines
// are in the order that they have before.
func scheduled(state *rules.State, shapes []model.Shape, emptiest []spare, pods []model.Pod, by order, told func(x model.Pod, node int)) []model.Pod {
	var used []int // by pods that were placed
	in := make([]bool, state.Nodes())
	place := func(x model.Pod) bool {
		best := spare{node: -1}
		try := func(node int) {
			at := spare{node, by.free(state, node, &shapes[x.Shape].Requests)}
			if (best.node < 0 || at.before(best)) && state.Allows(x.Shape, node) == "" {
				best = at
			}
		}
		for _, i := range used {
			try(i)
		}
		for _, at := range emptiest {
			if best.node >= 0 && at.free < best.free {
				break // after the pod there is less still
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
	free, all := freeShare(state, node), &state.Node(node).Allocatable
	for _, r := range []int{model.CPU, model.Memory} {
		if all[r] > 0 && !o.without {
			free -= float64(asks[r]) / float64(all[r])
		}
	}
	return free
}
