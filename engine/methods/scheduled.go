package methods

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// fragile says which pod of a proposal may be left without a place though the plan has one for it: kube-scheduler does not know the
// plan. It takes pods as they come, and each goes to the machine of which it leaves most (NodeResourcesFit LeastAllocated, the
// default). Where that is not enough another machine would be launched, and be consolidated, and launched again. The pods are
// tried as they come and the smallest first, which is the worst there is.
func (c *consolidation) fragile(p *proposal) model.Reason {
	moving := slices.DeleteFunc(slices.Clone(p.overlay.Pending), func(x model.Pod) bool { return x.Virtual })
	if len(moving) < 2 {
		return model.Reason{} // it has the choice that the plan had
	}
	s := *p.overlay
	s.Nodes, s.Pools = slices.Clone(s.Nodes), slices.Clone(s.Pools)
	for i := range p.plan.Launches {
		n := launched(&s, &p.plan.Launches[i])
		n.State = model.Initialized
		s.Nodes = append(s.Nodes, n)
	}
	size := func(x model.Pod) int64 { return s.Shapes[x.Shape].Requests[model.CPU] }
	for range 2 {
		if left, ok := scheduled(&s, moving); !ok {
			return model.Reason{Rule: model.RuleFragile, Object: podName(left)}
		}
		slices.SortStableFunc(moving, func(a, b model.Pod) int { return cmp.Compare(size(a), size(b)) })
	}
	return model.Reason{}
}

// scheduled places the pods one after another as kube-scheduler would. It gives the first that finds no place.
func scheduled(s *model.Snapshot, pods []model.Pod) (model.PodKey, bool) {
	state := rules.NewState(s)
	var open []int
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !n.Deleting && !n.Cordoned {
			open = append(open, i)
		}
	}
	waiting, before := slices.Clone(pods), -1
	for len(waiting) > 0 && len(waiting) != before { // who needs others near waits for them
		before = len(waiting)
		waiting = slices.DeleteFunc(waiting, func(x model.Pod) bool {
			best, most := -1, 0.0
			for _, i := range open {
				if state.Allows(x.Shape, i) != "" {
					continue
				}
				if left := freeShare(state.Free(i), &s.Nodes[i].Allocatable); best < 0 || left > most {
					best, most = i, left
				}
			}
			if best >= 0 {
				state.Bind(x.Shape, best)
			}
			return best >= 0
		})
	}
	if len(waiting) > 0 {
		return waiting[0].PodKey, false
	}
	return model.PodKey{}, true
}

// freeShare is how much of a machine's CPU and memory is free.
func freeShare(free model.Resources, all *model.Resources) float64 {
	sum := 0.0
	for _, r := range []int{model.CPU, model.Memory} {
		if all[r] > 0 {
			sum += float64(free[r]) / float64(all[r])
		}
	}
	return sum
}
