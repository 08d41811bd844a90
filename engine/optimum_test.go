package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

// On instances small enough to try every plan, no plan is cheaper than the lower bound, and no plan of the engine is
// cheaper than the optimum. The distances of both from the optimum are logged.
func TestOptimumIsBetweenBoundAndPlan(t *testing.T) {
	const instances = 400
	var above, below float64
	exact, judged, notGood, without := 0, 0, 0, 0
	for seed := range uint64(instances) {
		s, policy := tiny(rand.New(rand.NewPCG(seed, 7)))
		plan := engine.Provision(s, policy)
		if found := check.Plan(s, policy, plan); len(found) > 0 {
			notGood++
			t.Logf("seed %d: %v", seed, found[0])
			continue
		}
		if without += len(plan.Unplaced); len(plan.Launches) == 0 {
			continue
		}
		cost := model.Price(0)
		for i := range plan.Launches {
			cost += policy.Effective(plan.Launches[i].Chosen.Price)
		}
		best := optimum(s, policy, plan, cost)
		if plan.LowerBound > best {
			t.Errorf("seed %d: %d is said to be the least, but the pods can be had for %d", seed, plan.LowerBound, best)
		}
		judged++
		above += float64(cost-best) / float64(best)
		below += float64(best-plan.LowerBound) / float64(best)
		if cost == best {
			exact++
		}
	}
	t.Logf("%d instances: %d plans are optimal, on average they cost %.2f %% more; the bound is %.2f %% below the optimum; %d plans were not good, %d pods got nothing",
		judged, exact, 100*above/float64(judged), 100*below/float64(judged), notGood, without)
	if judged < instances/4 {
		t.Errorf("only %d of %d instances were judged", judged, instances)
	}
}

// tiny returns a cluster without nodes: one pool of at most 4 types in 2 zones, and at most 7 pods under a constraint
// or two.
func tiny(r *rand.Rand) (*model.Snapshot, model.Policy) {
	s := &model.Snapshot{ResourceNames: model.WellKnownResources, Pools: []model.Pool{{
		Name: "general", Requirements: model.NewRequirements(model.OneOf(model.LabelPool, "general")),
	}}}
	pool := &s.Pools[0]
	for i := range 1 + r.IntN(4) {
		cores := int64(1 + r.IntN(8))
		amounts := model.Resources{
			model.CPU: cores * 1000, model.Memory: cores * int64(1+r.IntN(4)) << 30,
			model.Pods: int64(2 + r.IntN(10)),
		}
		t := model.InstanceType{
			Name: fmt.Sprintf("t%d.x", i), Capacity: amounts, Allocatable: amounts,
			Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, fmt.Sprintf("t%d.x", i))),
			AttachLimits: []model.AttachLimit{{Driver: "ebs", Max: int64(1 + r.IntN(3))}},
		}
		for _, zone := range []string{"a", "b"} {
			price := model.Price(40_000*cores + int64(r.IntN(60_000)))
			t.Offerings = append(t.Offerings,
				model.Offering{Zone: zone, CapacityType: model.OnDemand, Price: price, Available: r.IntN(8) > 0},
				model.Offering{
					Zone: zone, CapacityType: model.Spot, Price: price * model.Price(40+r.IntN(50)) / 100,
					Available: r.IntN(3) > 0,
				})
		}
		pool.Types = append(pool.Types, t)
	}
	for i := range 1 + r.IntN(4) {
		s.Shapes = append(s.Shapes, tinyShape(r, i))
	}
	for i := range 2 + r.IntN(6) {
		name := fmt.Sprintf("pod-%d", i)
		s.Pending = append(s.Pending,
			model.Pod{PodKey: model.PodKey{Namespace: "default", Name: name, UID: name}, Shape: r.IntN(len(s.Shapes))})
	}
	var policy model.Policy
	if r.IntN(4) == 0 {
		policy.NodeFee = model.Price(r.IntN(30_000))
	}
	return s, policy
}

func tinyShape(r *rand.Rand, i int) model.Shape {
	app := fmt.Sprintf("app-%d", r.IntN(2))
	x := model.Shape{
		Key: fmt.Sprintf("shape-%d", i), Namespace: "default", Labels: []model.Label{{Key: "app", Value: app}},
		Requests: model.Resources{
			model.CPU: 100 + int64(r.IntN(2500)), model.Memory: int64(100+r.IntN(3000)) << 20,
			model.Pods: 1,
		},
	}
	other := model.Selector{
		Namespaces: []string{"default"},
		Labels:     model.Requirements{model.OneOf("app", fmt.Sprintf("app-%d", r.IntN(2)))},
	}
	own := model.Selector{Namespaces: []string{"default"}, Labels: model.Requirements{model.OneOf("app", app)}}
	topology := []string{model.LabelHostname, model.LabelHostname, model.LabelZone}[r.IntN(3)]
	switch r.IntN(10) {
	case 0:
		x.AntiAffinity = []model.PodTerm{{Topology: topology, Pods: other}}
	case 1:
		x.Affinity = []model.PodTerm{{Topology: topology, Pods: own}}
	case 2:
		x.Spread = []model.Spread{{Topology: topology, MaxSkew: int32(1 + r.IntN(2)), Hard: true, Pods: own}}
	case 3:
		x.HostPorts = []model.HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 80}}
	case 4:
		x.Volumes = []model.Volume{{ID: x.Key, Driver: "ebs"}, {ID: "shared", Driver: "ebs"}}
	case 5:
		x.Required = model.NewRequirements(model.OneOf(model.LabelZone, []string{"a", "b"}[r.IntN(2)]))
	}
	return x
}

// optimum returns the lowest price of nodes for the launched pods. It tries every partition of the pods into nodes,
// each node as the cheapest offering with enough capacity in each zone, cheapest plans first, until check.Plan
// accepts one. It tries no plan that costs atMost or more.
func optimum(s *model.Snapshot, policy model.Policy, plan model.Plan, atMost model.Price) model.Price {
	only := *s
	only.Pending = nil
	for _, p := range s.Pending {
		if slices.ContainsFunc(plan.Launches, func(l model.Launch) bool { return slices.Contains(l.Pods, p.PodKey) }) {
			only.Pending = append(only.Pending, p)
		}
	}
	b := brute{s: &only, policy: policy, atMost: atMost, bySet: make([][]machineOf, 1<<len(only.Pending))}
	for set := 1; set < len(b.bySet); set++ {
		b.bySet[set] = b.machines(set)
	}
	b.share(0, 0, nil)
	slices.SortStableFunc(b.tried, func(x, y sharing) int { return int(x.cost - y.cost) })
	for _, x := range b.tried {
		if len(check.Plan(&only, policy, b.planOf(x))) == 0 {
			return x.cost
		}
	}
	return atMost
}

type brute struct {
	s      *model.Snapshot
	policy model.Policy
	atMost model.Price
	bySet  [][]machineOf // by the set of its pods: the cheapest node with enough capacity in each zone
	tried  []sharing
}

type machineOf struct {
	set   int
	price model.Price // under the policy
	as    model.Candidate
}

type sharing struct {
	machines []machineOf
	cost     model.Price
}

// machines returns the cheapest node in each zone that holds the pods' resources and volumes.
func (b *brute) machines(set int) (out []machineOf) {
	var asked model.Resources
	var volumes []string
	for i, p := range b.s.Pending {
		if set>>i&1 == 0 {
			continue
		}
		x := &b.s.Shapes[p.Shape]
		asked = asked.Plus(x.Requests)
		for _, v := range x.Volumes {
			if !slices.Contains(volumes, v.ID) {
				volumes = append(volumes, v.ID)
			}
		}
	}
	for _, zone := range []string{"a", "b"} {
		best := machineOf{set: set, price: -1}
		for k := range b.s.Pools[0].Types {
			t := &b.s.Pools[0].Types[k]
			if !asked.Fits(t.Allocatable) || int64(len(volumes)) > t.AttachLimits[0].Max {
				continue
			}
			for _, o := range t.Offerings {
				price := b.policy.Effective(o.Price)
				if o.Available && o.Zone == zone && (best.price < 0 || price < best.price) {
					best.price = price
					best.as = model.Candidate{OfferingKey: model.OfferingKey{
						Type: t.Name, Zone: zone,
						CapacityType: o.CapacityType,
					}, Price: o.Price}
				}
			}
		}
		if best.price >= 0 {
			out = append(out, best)
		}
	}
	return out
}

// share assigns the pods that are not in done to nodes, in all ways that cost less than atMost.
func (b *brute) share(done int, cost model.Price, machines []machineOf) {
	all := len(b.bySet) - 1
	if done == all {
		b.tried = append(b.tried, sharing{slices.Clone(machines), cost})
		return
	}
	first := (done + 1) &^ done & all // the first pod that is not in done
	rest := all &^ done &^ first
	for others := rest; ; others = (others - 1) & rest {
		for _, m := range b.bySet[others|first] {
			if cost+m.price < b.atMost {
				b.share(done|others|first, cost+m.price, append(machines, m))
			}
		}
		if others == 0 {
			return
		}
	}
}

func (b *brute) planOf(x sharing) (plan model.Plan) {
	for i, m := range x.machines {
		l := model.Launch{
			ID: fmt.Sprint(i), Pool: "general", Types: []string{m.as.Type}, Chosen: m.as,
			Requirements: model.NewRequirements(model.OneOf(model.LabelPool, "general"),
				model.OneOf(model.LabelInstanceType, m.as.Type),
				model.OneOf(model.LabelZone, m.as.Zone), model.OneOf(model.LabelCapacityType, m.as.CapacityType)),
		}
		for k, p := range b.s.Pending {
			if m.set>>k&1 == 1 {
				l.Pods = append(l.Pods, p.PodKey)
			}
		}
		plan.Launches = append(plan.Launches, l)
	}
	return plan
}
