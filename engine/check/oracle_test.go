package check_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/lab/gen"
)

// The checker searches for a binding order heuristically. Here all orders of a few pods are tried against the
// solver's rules, which are independent of the checker: both must agree on plans that place pods at random.
func TestJudgeFindsAnOrderIfThereIsOne(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(2500) {
		r := rand.New(rand.NewPCG(seed, 11))
		s := gen.Constrained(seed)
		if len(s.Nodes) == 0 {
			continue
		}
		for i := range s.Nodes {
			if s.Nodes[i].State == model.InFlight {
				s.Nodes[i].Pods = nil // a node on which a pod runs exists
			}
			for k := range s.Nodes[i].Pods {
				s.Nodes[i].Pods[k].Terminating = r.IntN(8) == 0
			}
		}
		s.Pending = s.Pending[:min(len(s.Pending), 1+r.IntN(6))]
		var plan model.Plan
		state := rules.NewState(s)
		at, unsure := make([]int, len(s.Pending)), false
		for i, p := range s.Pending {
			at[i] = r.IntN(len(s.Nodes))
			for try := 0; try < 20 && state.Allows(p.Shape, at[i]) != "" && r.IntN(10) > 0; try++ {
				at[i] = r.IntN(len(s.Nodes))
			}
			state.Bind(p.Shape, at[i])
			unsure = unsure || s.Nodes[at[i]].State == model.InFlight
			plan.Placements = append(plan.Placements, model.Placement{Pod: p.PodKey, Node: s.Nodes[at[i]].Name})
		}
		possible := len(s.Pending) == 0 || inSomeOrder(rules.NewState(s), s.Pending, at, 0, map[int]bool{})
		found := check.Plan(s, model.Policy{}, plan)
		// where labels are still open, the rules are stricter
		if careful := unsure && len(found) == 0; possible != (len(found) == 0) && !careful {
			t.Errorf("seed %d: the pods can be bound in some order: %v; the judge says %v", seed, possible, found)
			for i, p := range s.Pending {
				t.Logf("  %s on %s: %s", p.Name, s.Nodes[at[i]].Name, rules.NewState(s).Allows(p.Shape, at[i]))
			}
		}
		if possible {
			good++
		} else {
			bad++
		}
	}
	t.Logf("%d plans can be bound, %d cannot", good, bad)
}

// The same for clusters in which only other pods constrain a pod, so that the order decides.
func TestJudgeFindsNarrowOrders(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 13))
		s, plan, at := crowded(r)
		possible := inSomeOrder(rules.NewState(s), s.Pending, at, 0, map[int]bool{})
		if found := check.Plan(s, model.Policy{}, plan); possible != (len(found) == 0) {
			t.Errorf("seed %d: the pods can be bound in some order: %v; the judge says %v", seed, possible, found)
		}
		if possible {
			good++
		} else {
			bad++
		}
	}
	t.Logf("%d plans can be bound, %d cannot", good, bad)
}

// Plans that are too large to try all orders: pods are bound one after another as the rules allow, so an order
// exists. Each app selects only itself, as most do; where many pods with different skews count each other, the
// checker may miss the order.
func TestJudgeFindsTheOrderOfManyPods(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 17))
		s, _, _ := crowded(r)
		for i := range s.Shapes {
			x := &s.Shapes[i]
			x.Labels = []model.Label{{Key: "app", Value: x.Key}}
			for k := range x.Spread {
				x.Spread[k].Pods.Labels = model.Requirements{model.OneOf("app", x.Key)}
			}
			for k := range x.Affinity {
				x.Affinity[k].Pods.Labels = model.Requirements{model.OneOf("app", x.Key, s.Shapes[0].Key)}
			}
		}
		for i := range 20 {
			s.Nodes = append(s.Nodes, s.Nodes[r.IntN(len(s.Nodes))])
			s.Nodes[len(s.Nodes)-1].Name = fmt.Sprint("s", i)
		}
		s.Pending = nil
		var plan model.Plan
		state := rules.NewState(s)
		for i := range 600 {
			shape, node := r.IntN(len(s.Shapes)), r.IntN(len(s.Nodes))
			if state.Allows(shape, node) != "" {
				continue
			}
			state.Bind(shape, node)
			p := model.Pod{PodKey: model.PodKey{Namespace: "default", Name: fmt.Sprint(i)}, Shape: shape}
			s.Pending = append(s.Pending, p)
			plan.Placements = append(plan.Placements, model.Placement{Pod: p.PodKey, Node: s.Nodes[node].Name})
		}
		if found := check.Plan(s, model.Policy{}, plan); len(found) > 0 {
			t.Errorf("seed %d: %d pods were bound one after another, the judge says %v", seed, len(s.Pending), found)
		}
	}
}

// crowded returns a cluster of two to five nodes in two zones, and a plan for pods of two apps with topology spread
// and affinity to each other.
func crowded(r *rand.Rand) (*model.Snapshot, model.Plan, []int) {
	s, plan, at := &model.Snapshot{ResourceNames: model.WellKnownResources}, model.Plan{}, []int{}
	apps := func() model.Selector {
		values := [][]string{{"a"}, {"b"}, {"a", "b"}, {"a"}, {"b"}}[r.IntN(5)]
		return model.Selector{Namespaces: []string{"default"}, Labels: model.Requirements{model.OneOf("app", values...)}}
	}
	topology := func() string { return []string{model.LabelZone, model.LabelHostname}[r.IntN(2)] }
	for i := range 4 {
		x := model.Shape{
			Key: string(rune('a' + i)), Namespace: "default",
			Labels: []model.Label{{Key: "app", Value: []string{"a", "b"}[r.IntN(2)]}},
		}
		for range r.IntN(3) {
			x.Spread = append(x.Spread,
				model.Spread{Topology: topology(), MaxSkew: int32(1 + r.IntN(2)), Hard: true, Pods: apps()})
		}
		if r.IntN(3) == 0 {
			x.Affinity = append(x.Affinity, model.PodTerm{Topology: topology(), Pods: apps()})
		}
		s.Shapes = append(s.Shapes, x)
	}
	nodes := 2 + r.IntN(4)
	for i := range nodes {
		zone := []string{"zone-a", "zone-b"}[r.IntN(2)]
		s.Nodes = append(s.Nodes, model.Node{
			Name: string(rune('p' + i)), State: model.Initialized,
			Labels: model.Requirements{model.OneOf(model.LabelZone, zone)},
		})
	}
	for i := range 3 + r.IntN(7) {
		p := model.Pod{PodKey: model.PodKey{Namespace: "default", Name: string(rune('0' + i))}, Shape: r.IntN(len(s.Shapes))}
		node := r.IntN(nodes)
		s.Pending, at = append(s.Pending, p), append(at, node)
		plan.Placements = append(plan.Placements, model.Placement{Pod: p.PodKey, Node: s.Nodes[node].Name})
	}
	return s, plan, at
}

// inSomeOrder tries all orders of the pods that are not in done.
func inSomeOrder(state *rules.State, pods []model.Pod, at []int, done int, failed map[int]bool) bool {
	if done == 1<<len(pods)-1 {
		return true
	}
	if failed[done] {
		return false
	}
	for i, p := range pods {
		if done>>i&1 == 1 || state.Allows(p.Shape, at[i]) != "" {
			continue
		}
		state.Bind(p.Shape, at[i])
		ok := inSomeOrder(state, pods, at, done|1<<i, failed)
		state.Unbind(p.Shape, at[i])
		if ok {
			return true
		}
	}
	failed[done] = true
	return false
}
