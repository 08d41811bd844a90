package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// market is the pools prepared for one attempt, with their remaining limits.
type market struct {
	policy    *model.Policy
	views     []*rules.View
	rooms     []rules.Headroom // by view
	addresses *addresses       // nil if they limit nothing
	tiers     [][]int          // views by weight, heaviest first
	screen    *rules.Screen    // of the views before anything was planned; nil until it is needed
	sorted    [][]typePrice    // by view: see byPrice
}

func newMarket(s *model.Snapshot, policy *model.Policy, views []*rules.View) *market {
	m := &market{
		policy: policy, views: views, sorted: make([][]typePrice, len(views)), addresses: newAddresses(s, views),
	}
	for _, v := range views {
		m.rooms = append(m.rooms, v.Headroom())
	}
	order := m.allViews()
	weight := func(v int) int32 { return s.Pools[v].Weight }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight(b), weight(a)) })
	for i, v := range order {
		if i == 0 || weight(v) != weight(order[i-1]) {
			m.tiers = append(m.tiers, nil)
		}
		last := len(m.tiers) - 1
		m.tiers[last] = append(m.tiers[last], v)
	}
	return m
}

func (m *market) allViews() []int {
	out := make([]int, len(m.views))
	for i := range out {
		out[i] = i
	}
	return out
}

// zones returns the zones of all pools, by name.
func (m *market) zones() []string {
	var out []string
	for _, v := range m.views {
		out = append(out, v.Zones...)
	}
	return sortedSet(out)
}

// feasible returns the views that could launch a node for the group before anything was planned; nil if that is not
// known.
func (m *market) feasible(g *group, classes *classTable) rules.Bits {
	if m.screen == nil {
		return nil
	}
	c := classes.list[g.class]
	return m.screen.Views(g.request, c.required, c.anyOf, c.tolerations)
}

// charge takes a node from the headroom of its pool and from the subnets.
func (m *market) charge(n *plannedNode) {
	m.rooms[n.view] = m.rooms[n.view].Minus(n.largest)
	m.addresses.charge(n)
}

// refund undoes charge.
func (m *market) refund(n *plannedNode) {
	m.rooms[n.view] = m.rooms[n.view].Plus(n.largest)
	m.addresses.refund(n)
}

// typePrice is a type with its lowest price anywhere.
type typePrice struct {
	typ   int
	price model.Price
}

// byPrice returns the pool's available types, cheapest first.
func (m *market) byPrice(view int) []typePrice {
	if m.sorted[view] == nil {
		v := m.views[view]
		all := v.AllOffers()
		out := make([]typePrice, 0, len(v.Net))
		for t := range v.Net {
			if f, ok := cheapestOffer(v, t, &all); ok && v.Eligible.Has(t) {
				out = append(out, typePrice{t, f.Price})
			}
		}
		slices.SortFunc(out, func(a, b typePrice) int {
			return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.typ, b.typ))
		})
		m.sorted[view] = out
	}
	return m.sorted[view]
}

// cheapestOffer returns the cheapest available offering of a type.
func cheapestOffer(v *rules.View, t int, among *rules.OfferSet) (best rules.Offer, ok bool) {
	for i := range v.Offers[t] {
		if f := &v.Offers[t][i]; f.Available && among.Has(f) && (!ok || f.Price < best.Price) {
			best, ok = *f, true
		}
	}
	return best, ok
}
