package sim

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// outageMemory is how long an offering without capacity is not retried (as in Karpenter).
const outageMemory = 3 * time.Minute

// market holds the cloud's offerings, and which of them lacked capacity lately.
type market struct {
	all     []model.InstanceType
	types   map[string]*model.InstanceType      // of all, by name
	outages map[model.OfferingKey]time.Duration // when offerings without capacity may be retried
	errors  int                                 // attempts that failed for lack of capacity
	chance  *chance
}

func newMarket(all []model.InstanceType, c *chance) market {
	m := market{
		all: all, types: map[string]*model.InstanceType{}, outages: map[model.OfferingKey]time.Duration{},
		chance: c,
	}
	for i := range all {
		m.types[all[i].Name] = &all[i]
	}
	return m
}

// offer returns the launch's chosen offering or, if that has no capacity, its cheapest candidate with capacity.
func (m *market) offer(l *model.Launch, now time.Duration) (model.OfferingKey, model.Price, bool) {
	if !m.outOfStock(l.Chosen.OfferingKey, now) {
		return l.Chosen.OfferingKey, l.Chosen.Price, true
	}
	var best model.Candidate
	for _, name := range l.Types {
		for _, o := range m.types[name].Offerings {
			key := model.OfferingKey{Type: name, Zone: o.Zone, CapacityType: o.CapacityType}
			if !l.Requirements.Matches([]model.Label{
				{Key: model.LabelZone, Value: o.Zone},
				{Key: model.LabelCapacityType, Value: o.CapacityType},
				{Key: model.LabelPool, Value: l.Pool},
				{Key: model.LabelInstanceType, Value: name},
			}) {
				continue
			}
			if (best.Type == "" || o.Price < best.Price) && !m.outOfStock(key, now) {
				best = model.Candidate{OfferingKey: key, Price: o.Price}
			}
		}
	}
	return best.OfferingKey, best.Price, best.Type != ""
}

// outOfStock reports whether the offering has no capacity. If so, it records the outage.
func (m *market) outOfStock(key model.OfferingKey, now time.Duration) bool {
	if !m.chance.dry(key, now) {
		return false
	}
	m.errors++
	m.outages[key] = now + outageMemory
	return true
}

// restocked reports whether an offering without capacity may be retried.
func (m *market) restocked(now time.Duration) bool {
	for _, until := range m.outages {
		if until <= now {
			return true
		}
	}
	return false
}

// stocked returns the types, with offerings that lacked capacity lately marked as unavailable.
func (m *market) stocked(now time.Duration) []model.InstanceType {
	types := slices.Clone(m.all)
	for key, until := range m.outages {
		if until <= now {
			delete(m.outages, key)
			continue
		}
		t := &types[slices.IndexFunc(types, func(t model.InstanceType) bool { return t.Name == key.Type })]
		t.Offerings = slices.Clone(t.Offerings)
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.Zone == key.Zone && o.CapacityType == key.CapacityType {
				o.Available = false
			}
		}
	}
	return types
}
