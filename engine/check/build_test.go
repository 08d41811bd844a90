package check_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/scenario"
)

// aim narrows a launch to one zone and capacity type and sorts its types by their prices there.
func aim(s *model.Snapshot, l *model.Launch, zone, capacityType string) {
	pool := poolOf(s, l.Pool)
	price := func(name string) model.Price {
		for i := range pool.Types {
			for _, o := range pool.Types[i].Offerings {
				if pool.Types[i].Name == name && o.Zone == zone && o.CapacityType == capacityType && o.Available {
					return o.Price
				}
			}
		}
		return -1
	}
	l.Types = slices.DeleteFunc(slices.Clone(l.Types), func(name string) bool { return price(name) < 0 })
	slices.SortStableFunc(l.Types, func(a, b string) int { return cmp.Compare(price(a), price(b)) })
	l.Chosen = model.Candidate{OfferingKey: model.OfferingKey{
		Type: l.Types[0], Zone: zone,
		CapacityType: capacityType,
	}, Price: price(l.Types[0])}
	l.RunnerUp = model.Candidate{}
	l.Requirements = l.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, zone),
		model.OneOf(model.LabelCapacityType, capacityType), model.OneOf(model.LabelInstanceType, l.Types...)))
}

func poolOf(s *model.Snapshot, name string) *model.Pool {
	return &s.Pools[slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == name })]
}

// builder builds plans by hand for the pods of a scenario.
type builder struct {
	t      *testing.T
	s      *model.Snapshot
	policy model.Policy
	plan   model.Plan
}

func build(t *testing.T, text string) *builder {
	t.Helper()
	s, policy, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &builder{t: t, s: s, policy: policy}
}

func (b *builder) pod(name string) model.PodKey {
	b.t.Helper()
	for _, p := range b.s.Pending {
		if p.Name == name {
			return p.PodKey
		}
	}
	b.t.Fatalf("no pod %s waits", name)
	return model.PodKey{}
}

// place places pods on a node.
func (b *builder) place(node string, pods ...string) *builder {
	b.t.Helper()
	for _, p := range pods {
		b.plan.Placements = append(b.plan.Placements, model.Placement{Pod: b.pod(p), Node: node})
	}
	return b
}

// launch adds a launch of the type from the first pool for the pods. The zone is open if it is "".
func (b *builder) launch(typ, zone string, pods ...string) *builder {
	b.t.Helper()
	pool := &b.s.Pools[0]
	l := model.Launch{
		ID: fmt.Sprintf("l%d", len(b.plan.Launches)+1), Pool: pool.Name, Types: []string{typ},
		Requirements: pool.Requirements,
	}
	for _, p := range pods {
		l.Pods = append(l.Pods, b.pod(p))
	}
	if zone == "" {
		zone = "a"
		l.Requirements = l.Requirements.And(model.Requirements{model.OneOf(model.LabelInstanceType, typ)})
		open := l.Requirements
		aim(b.s, &l, zone, model.Spot)
		l.Requirements = open
	} else {
		aim(b.s, &l, zone, model.Spot)
	}
	b.plan.Launches = append(b.plan.Launches, l)
	return b
}

// label narrows the last launch to a value of a label.
func (b *builder) label(key, value string) *builder {
	l := &b.plan.Launches[len(b.plan.Launches)-1]
	l.Requirements = l.Requirements.And(model.Requirements{model.OneOf(key, value)})
	return b
}
