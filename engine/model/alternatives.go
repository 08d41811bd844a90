package model

import (
	"cmp"
	"slices"
)

// Alternatives returns the best offering of each type of a launch, by price, then name; at most limit of them.
func Alternatives(s *Snapshot, l *Launch, limit int) []Candidate {
	pool := s.Pool(l.Pool)
	if pool == nil {
		return nil
	}
	zones, _ := l.Requirements.Get(LabelZone)
	capacities, _ := l.Requirements.Get(LabelCapacityType)
	allows := func(r Requirement, value string) bool { return r.Key == "" || r.Has(value) }
	var out []Candidate
	for t := range pool.Types {
		it := &pool.Types[t]
		if !slices.Contains(l.Types, it.Name) {
			continue
		}
		var best *Offering
		for o := range it.Offerings {
			f := &it.Offerings[o]
			if f.Available && allows(zones, f.Zone) && allows(capacities, f.CapacityType) &&
				(best == nil || f.Price < best.Price) {
				best = f
			}
		}
		if best != nil {
			key := OfferingKey{Type: it.Name, Zone: best.Zone, CapacityType: best.CapacityType}
			out = append(out, Candidate{OfferingKey: key, Price: best.Price})
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Type, b.Type))
	})
	return out[:min(limit, len(out))]
}
