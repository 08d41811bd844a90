package model

import "slices"

// Reservation is a capacity reservation: instances of one type in one zone that are paid for, whether they run or not.
type Reservation struct {
	ID   string
	Type string
	Zone string
	// Free is how many more of its instances can be launched. Pools with the same reservation share it.
	Free int64
	// Labels are those that its nodes have in addition to their type's labels, zone and capacity type, each In [value].
	// All reservations have the same keys.
	Labels Requirements
	// Price is what a launch adds to the bill: the node's volumes and public addresses.
	Price Price
}

// Holds reports whether every node that satisfies the requirements of a launch or a claim comes from this reservation
// and no other.
func (r *Reservation) Holds(rs Requirements) bool {
	if kind, _ := rs.Get(LabelCapacityType); len(kind.Values) != 1 || !kind.Has(Reserved) || len(r.Labels) == 0 {
		return false
	}
	for _, want := range r.Labels {
		if have, ok := rs.Get(want.Key); !ok || !have.SubsetOf(want) {
			return false
		}
	}
	return true
}

// WithReserved returns the types with offerings of capacity type Reserved for the reservations. These are not
// Available: the reservations say how many instances there are. If a type does not define a label of reservations,
// its other nodes lack the label, and the returned type says so. The argument types, sorted by Name, are not changed.
func WithReserved(types []InstanceType, reservations []Reservation) []InstanceType {
	if len(reservations) == 0 {
		return types
	}
	out := make([]InstanceType, len(types))
	copy(out, types)
	for i := range out {
		t := &out[i]
		for _, r := range reservations[0].Labels { // all have the same keys
			if _, has := t.Requirements.Get(r.Key); !has {
				t.Requirements = t.Requirements.And(Requirements{{Key: r.Key}})
			}
		}
		added := addReserved(t, reservations)
		if kind, ok := t.Requirements.Get(LabelCapacityType); ok && added {
			t.Requirements = t.Requirements.Without(LabelCapacityType).And(
				Requirements{OneOf(LabelCapacityType, append([]string{Reserved}, kind.Values...)...)})
		}
	}
	return out
}

// addReserved adds an offering for each zone with a reservation of the type, and reports whether there is any.
func addReserved(t *InstanceType, reservations []Reservation) bool {
	offerings := slices.Clone(t.Offerings)
	for i := range reservations {
		r := &reservations[i]
		if r.Type != t.Name || slices.ContainsFunc(offerings, func(o Offering) bool {
			return o.Zone == r.Zone && o.CapacityType == Reserved
		}) {
			continue
		}
		offerings = append(offerings, Offering{Zone: r.Zone, CapacityType: Reserved, Price: r.Price, SidePrice: r.Price})
	}
	if len(offerings) == len(t.Offerings) {
		return false
	}
	t.Offerings = offerings
	sortOfferings(t.Offerings)
	return true
}
