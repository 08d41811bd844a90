package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// carriedOut returns the cluster after a plan of Disrupt: removed nodes are gone, their pods are where the plan
// placed them, and each launch has become the chosen instance.
func carriedOut(t *testing.T, s *model.Snapshot, plan model.Plan) *model.Snapshot {
	t.Helper()
	going, launches, places := map[string]bool{}, []model.Launch(nil), []model.Placement(nil)
	for _, r := range plan.Removals {
		going[r.Node] = true
	}
	for _, c := range plan.Commands {
		for _, r := range c.Removals {
			going[r.Node] = true
		}
		launches, places = append(launches, c.Launches...), append(places, c.Placements...)
	}
	out := *s
	pods := map[model.PodKey]model.BoundPod{}
	out.Nodes = nil
	for _, n := range s.Nodes {
		if going[n.Name] {
			for _, p := range n.Pods {
				pods[p.PodKey] = p
			}
			continue
		}
		n.Pods = slices.Clone(n.Pods)
		out.Nodes = append(out.Nodes, n)
	}
	put := func(n *model.Node, k model.PodKey) {
		p, ok := pods[k]
		if !ok {
			t.Fatalf("pod %v moves to %s from nowhere", k, n.Name)
		}
		delete(pods, k)
		n.Pods, n.Used = append(n.Pods, p), n.Used.Plus(s.Shapes[p.Shape].Requests)
	}
	for _, p := range places {
		put(&out.Nodes[slices.IndexFunc(out.Nodes, func(n model.Node) bool { return n.Name == p.Node })], p.Pod)
	}
	for i := range launches {
		n := launchedNode(&out, &launches[i])
		for _, k := range launches[i].Pods {
			put(&n, k)
		}
		out.Nodes = append(out.Nodes, n)
	}
	return model.Canonical(gen.Shuffle(&out, 0))
}

func launchedNode(s *model.Snapshot, l *model.Launch) model.Node {
	n := model.Node{
		Name: "new-" + l.ID[:8], Claim: "claim-new-" + l.ID[:8], Pool: l.Pool, Type: l.Chosen.Type, Zone: l.Chosen.Zone,
		CapacityType: l.Chosen.CapacityType,
		Price:        l.Chosen.Price, State: model.Initialized, Created: s.Now, Initialized: s.Now.Add(-time.Hour),
	}
	for _, p := range s.Pools {
		for _, t := range p.Types {
			if p.Name == l.Pool && t.Name == l.Chosen.Type {
				n.Capacity, n.Allocatable, n.AttachLimits, n.Taints = t.Capacity, t.Allocatable, t.AttachLimits, p.Taints
				n.Labels = l.Requirements.And(t.Requirements)
			}
		}
	}
	n.Labels = slices.DeleteFunc(n.Labels.And(model.NewRequirements(model.OneOf(model.LabelZone, n.Zone),
		model.OneOf(model.LabelCapacityType, n.CapacityType),
		model.OneOf(model.LabelInstanceType, n.Type))),
		func(r model.Requirement) bool { return len(r.Values) != 1 || r.Complement })
	return n
}

func price(s *model.Snapshot) (sum model.Price) {
	for i := range s.Nodes {
		sum += s.Nodes[i].Price
	}
	return sum
}

// settles carries out plans until there is nothing left to do, and returns the final cluster. Each plan must save
// money.
func settles(t *testing.T, name string, s *model.Snapshot, policy model.Policy) *model.Snapshot {
	t.Helper()
	for range 40 {
		plan := engine.Disrupt(s, policy)
		policy.After = plan.After
		if len(plan.Removals)+len(plan.Commands) == 0 {
			if plan.After == (model.Cursor{}) {
				return s
			}
			continue
		}
		next := carriedOut(t, s, plan)
		if price(next) >= price(s) && len(plan.Removals) == 0 {
			t.Fatalf("%s: after %d commands it costs %d, before %d", name, len(plan.Commands), price(next), price(s))
		}
		if more := engine.Provision(next, policy); len(more.Launches) > 0 {
			t.Fatalf("%s: what was taken away is launched again: %d", name, len(more.Launches))
		}
		s = next
	}
	t.Fatalf("%s: it never comes to an end", name)
	return s
}

// A command must not be undone by a later plan: consolidation terminates, and every step saves money.
func TestConsolidationSettles(t *testing.T) {
	for seed := range uint64(1500) {
		s, policy := gen.Disruptive(seed), gen.DisruptionPolicy(seed)
		s.Pending = nil
		for i := range s.Nodes {
			s.Nodes[i].Drifted, s.Nodes[i].MissingDaemons = "", nil
		}
		for i := range s.Pools {
			s.Pools[i].Static = false
			s.Pools[i].Disruption.ConsolidateAfter, s.Pools[i].Disruption.SoftExpireAfter = 0, 0
		}
		settles(t, fmt.Sprint("seed ", seed), s, policy)
		if t.Failed() {
			return
		}
	}
}
