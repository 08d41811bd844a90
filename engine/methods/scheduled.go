package methods

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/pack"
	"github.com/nodeless/nodeless/engine/rules"
)

// fragile says which pod of a proposal may be left without a place though the plan has one for it: kube-scheduler does not know the
// plan. It takes pods as they come, and each goes to the machine of which it leaves most (NodeResourcesFit LeastAllocated, the
// default). Where that is not enough another machine would be launched, and be consolidated, and launched again. The pods are
// tried as they come and the smallest first, which is the worst there is.
func (c *consolidation) fragile(p *proposal) model.Reason {
	moving := slices.DeleteFunc(slices.Clone(p.moving), func(x model.Pod) bool { return x.Virtual })
	if len(moving) < 2 {
		return model.Reason{} // it has the choice that the plan had
	}
	if len(p.plan.Launches) == 0 {
		emptiest := c.world.open(destinations{settled: true}).byFreeShare()
		return c.survives(p, moving, func(places *pack.Places) (*rules.State, []spare) { return places.State(), emptiest })
	}
	return c.survives(p, moving, func(places *pack.Places) (*rules.State, []spare) {
		s, state := *c.world.now, places.State().Fresh()
		s.Pools = slices.Clone(s.Pools)
		for i := range p.plan.Launches {
			n := launched(&s, &p.plan.Launches[i])
			n.State = model.Initialized
			state.AddNode(n)
		}
		return state, byFreeShare(state)
	})
}

// survives says which of the pods finds no place, in one of both orders.
func (c *consolidation) survives(p *proposal, moving []model.Pod, in func(*pack.Places) (*rules.State, []spare)) (out model.Reason) {
	size := func(x model.Pod) int64 { return c.s.Shapes[x.Shape].Requests[model.CPU] }
	c.without(p, func(places *pack.Places) {
		state, emptiest := in(places)
		for range 2 {
			state.Try(func() {
				if left, ok := scheduled(state, emptiest, moving); !ok {
					out = model.Reason{Rule: model.RuleFragile, Object: podName(left)}
				}
			})
			if out.Rule != "" {
				return
			}
			slices.SortStableFunc(moving, func(a, b model.Pod) int { return cmp.Compare(size(a), size(b)) })
		}
	})
	return out
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

// scheduled places the pods one after another as kube-scheduler would. It gives the first that finds no place. The machines are in
// the order that they have before.
func scheduled(state *rules.State, emptiest []spare, pods []model.Pod) (model.PodKey, bool) {
	var used []int // by pods that were placed
	place := func(x model.Pod) bool {
		best := spare{node: -1}
		for _, i := range used {
			if at := (spare{i, freeShare(state, i)}); (best.node < 0 || at.before(best)) && state.Allows(x.Shape, i) == "" {
				best = at
			}
		}
		for _, at := range emptiest {
			if best.node >= 0 && !at.before(best) {
				break
			}
			if !slices.Contains(used, at.node) && state.Allows(x.Shape, at.node) == "" {
				best = at
				break
			}
		}
		if best.node < 0 {
			return false
		}
		state.Bind(x.Shape, best.node)
		if !slices.Contains(used, best.node) {
			used = append(used, best.node)
		}
		return true
	}
	waiting, before := slices.Clone(pods), -1
	for len(waiting) > 0 && len(waiting) != before { // who needs others near waits for them
		before = len(waiting)
		waiting = slices.DeleteFunc(waiting, place)
	}
	if len(waiting) > 0 {
		return waiting[0].PodKey, false
	}
	return model.PodKey{}, true
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
