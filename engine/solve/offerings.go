package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// offeringOption is one offering that can bear a load.
type offeringOption struct {
	typ   int
	offer rules.Offer
}

func (o *offeringOption) candidate(v *rules.View) model.Candidate {
	return v.Candidate(o.typ, &o.offer)
}

func compareOptions(a, b offeringOption) int {
	return cmp.Or(cmp.Compare(a.offer.Price, b.offer.Price), cmp.Compare(a.typ, b.typ))
}

// offeringOptions returns the cheapest offering of each type that bears the load, cheapest first; among the cheapest,
// the one that the pods prefer comes first. Types too expensive to be alternatives are left out unless something may
// need them.
func (b *nodeBuilder) offeringOptions(n *plannedNode) []offeringOption {
	v := b.views[n.view]
	all := len(v.MinValues) > 0 || rules.Limited(&v.Pool.Limits) || b.policy.MaxTypes == allTypes
	var out []offeringOption
	least := rules.MaxPrice * 2
	for _, c := range b.byPrice(n.view) {
		if !all && (len(out) >= 2 && c.price > least/100*scarcePercent ||
			len(out) >= minAlternatives && c.price > least/100*alternativePercent) {
			break
		}
		if !n.bearing.Has(c.typ) || !b.bears(n, c.typ) {
			continue
		}
		if f, ok := cheapestOffer(v, c.typ, &n.OfferSet); ok {
			if !b.addresses.holds(n.view, f.Zone, c.typ, n.load[model.Pods]) {
				if f, ok = b.cheapestWithAddresses(n, c.typ); !ok {
					b.addresses.starved[n.view] = true
					continue
				}
			}
			out = append(out, offeringOption{typ: c.typ, offer: f})
			least = min(least, f.Price)
		}
	}
	slices.SortFunc(out, compareOptions)
	b.prefer(n, out)
	return out
}

// cheapestWithAddresses returns the cheapest offering of a type in a zone with the addresses that it takes.
func (b *nodeBuilder) cheapestWithAddresses(n *plannedNode, t int) (rules.Offer, bool) {
	among := rules.OfferSet{Zones: slices.Clone(n.Zones), Capacity: n.Capacity}
	for z := range n.Zones.All() {
		if !b.addresses.holds(n.view, z, t, n.load[model.Pods]) {
			among.Zones.Remove(z)
		}
	}
	return cheapestOffer(b.views[n.view], t, &among)
}

// bears reports whether a type has room for the node's pods and their volumes and the labels that they need together,
// and the limits admit it.
func (b *nodeBuilder) bears(n *plannedNode, t int) bool {
	v := b.views[n.view]
	x := &v.Pool.Types[t]
	if !n.load.Fits(v.Net[t]) || !b.rooms[n.view].Allows(&v.Pool.Limits, &x.Capacity) {
		return false
	}
	for _, r := range n.custom {
		if !v.TypeAllows(t, r) {
			return false
		}
	}
	for _, limit := range x.AttachLimits {
		if attached := n.attached(limit.Driver); attached > 0 && attached > limit.Max {
			return false
		}
	}
	return true
}

// attached returns how many volumes of the driver the node's pods have; pods of one shape have the same ones.
func (n *plannedNode) attached(driver string) int64 {
	seen := map[string]bool{}
	for _, a := range n.assignments {
		for i := range a.group.shape.Volumes {
			if x := &a.group.shape.Volumes[i]; x.Driver == driver {
				seen[x.ID] = true
			}
		}
	}
	return int64(len(seen))
}

// prefer moves the option that best satisfies the preferences, among the cheapest in zones with the addresses that it
// takes, to the front.
func (b *nodeBuilder) prefer(n *plannedNode, options []offeringOption) {
	if len(options) == 0 || b.policy.Preferences == model.Ignore ||
		!slices.ContainsFunc(n.assignments, func(a assignment) bool { return len(a.group.shape.Preferred) > 0 }) {
		return
	}
	v := b.views[n.view]
	least := options[0].offer.Price
	best, top := offeringOption{}, int64(-1<<62)
	for _, o := range options {
		if o.offer.Price > least {
			break
		}
		for _, f := range v.Offers[o.typ] {
			if f.Price > least || !f.Available || !n.Has(&f) ||
				!b.addresses.holds(n.view, f.Zone, o.typ, n.load[model.Pods]) {
				continue
			}
			if score := n.score(v.LabelsOf(o.typ, f)); score > top {
				best, top = offeringOption{typ: o.typ, offer: f}, score
			}
		}
	}
	i := slices.IndexFunc(options, func(o offeringOption) bool { return o.typ == best.typ })
	copy(options[1:i+1], options[:i])
	options[0] = best
}

func (n *plannedNode) score(labels model.Requirements) int64 {
	labels = labels.And(n.custom)
	var sum int64
	for _, a := range n.assignments {
		sum += int64(a.n) * rules.Score(a.group.shape.Preferred, labels)
	}
	return sum
}
