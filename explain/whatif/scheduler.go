package whatif

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// scheduler is a simulated kube-scheduler: a pod gets the node with the best score of those that engine/rules allow,
// as far as resources, balance and the spread of equal pods decide. Room is kept for nominated pods, and they get it
// once it is there.
type scheduler struct {
	s     *model.Snapshot
	state *rules.State
	used  []model.Resources    // by node
	equal []map[int]int        // by node: pods by shape
	kept  map[model.PodKey]int // nodes of nominated pods
}

func newScheduler(s *model.Snapshot, waiting []*model.Pod) *scheduler {
	x := &scheduler{
		s: s, state: rules.NewState(s), used: make([]model.Resources, len(s.Nodes)),
		equal: make([]map[int]int, len(s.Nodes)),
	}
	for i := range s.Nodes {
		x.used[i], x.equal[i] = s.Nodes[i].Used, map[int]int{}
		for k := range s.Nodes[i].Pods {
			x.equal[i][s.Nodes[i].Pods[k].Shape]++
		}
	}
	x.kept = keepRoom(s, x.state, waiting)
	return x
}

// bind binds the pod, and returns the index of its node, -1 if it stays pending.
func (x *scheduler) bind(p *model.Pod) int {
	at, nominated := x.kept[p.PodKey]
	if nominated {
		x.state.Unbind(p.Shape, at)
	}
	node := -1
	if nominated && x.feasible(p, at) {
		node = at
	} else {
		node = x.best(p)
	}
	if node < 0 {
		if nominated {
			x.state.Bind(p.Shape, at)
		}
		return node
	}
	x.state.Bind(p.Shape, node)
	x.used[node] = x.used[node].Plus(x.s.Shapes[p.Shape].Requests)
	x.equal[node][p.Shape]++
	return node
}

// best is the feasible node with the highest score, the first of equals; -1 if none is feasible.
func (x *scheduler) best(p *model.Pod) int {
	best, most := -1, 0.0
	for i := range x.s.Nodes {
		if !x.feasible(p, i) {
			continue
		}
		after := x.used[i].Plus(x.s.Shapes[p.Shape].Requests)
		if score := score(&after, &x.s.Nodes[i].Allocatable) - 10*float64(x.equal[i][p.Shape]); best < 0 || score > most {
			best, most = i, score
		}
	}
	return best
}

func (x *scheduler) feasible(p *model.Pod, i int) bool {
	n := &x.s.Nodes[i]
	return n.State == model.Initialized && !n.Deleting && !n.Cordoned && x.state.Allows(p.Shape, i) == ""
}

// keepRoom binds the nominated pods where they are to have their places, and returns those by pod.
func keepRoom(s *model.Snapshot, state *rules.State, waiting []*model.Pod) map[model.PodKey]int {
	kept := map[model.PodKey]int{}
	for _, p := range waiting {
		i, found := slices.BinarySearchFunc(s.Nodes, p.Nominated,
			func(n model.Node, name string) int { return cmp.Compare(n.Name, name) })
		if p.Nominated != "" && found && state.Allows(p.Shape, i) == "" {
			state.Bind(p.Shape, i)
			kept[p.PodKey] = i
		}
	}
	return kept
}

// score is NodeResourcesFit's (LeastAllocated) and NodeResourcesBalancedAllocation's, from 0 to 200.
func score(used, all *model.Resources) float64 {
	part := func(i int) float64 {
		if all[i] <= 0 {
			return 0
		}
		return float64(used[i]) / float64(all[i])
	}
	cpu, memory := part(model.CPU), part(model.Memory)
	return 100*(1-(cpu+memory)/2) + 100*(1-max(cpu-memory, memory-cpu)/2)
}
