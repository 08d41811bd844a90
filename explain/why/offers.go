package why

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/explain/record"
)

// Offers is what each NodePool may launch.
type Offers struct {
	Pools  []PoolOffers `json:"pools"`
	Prices string       `json:"prices"`
	Gaps   []string     `json:"notKnown,omitempty"`
}

// PoolOffers counts the types that a pool's node class offers, those that its requirements allow, and those with
// capacity now, and gives the ends of their prices.
type PoolOffers struct {
	Pool      string        `json:"pool"`
	Offered   int           `json:"offered"`
	Allowed   int           `json:"allowed"`
	Available int           `json:"available"`
	Cheapest  *record.Offer `json:"cheapest,omitempty"` // nil with Dearest: none is available
	Dearest   *record.Offer `json:"dearest,omitempty"`
}

// AllOffers asks the engine what each NodePool may launch, whatever pods there are.
func AllOffers(c *capture.Cluster, policy model.Policy) *Offers {
	s := c.Snapshot()
	out := &Offers{Pools: []PoolOffers{}, Prices: c.Prices()}
	for i := range s.Pools {
		p := &s.Pools[i]
		o := query.OffersOf(s, policy, p)
		one := PoolOffers{Pool: p.Name, Offered: o.Offered, Allowed: o.Allowed, Available: o.Available}
		if len(o.Cheapest) > 0 {
			cheapest, dearest := record.OfferOf(o.Cheapest[0]), record.OfferOf(o.Dearest)
			one.Cheapest, one.Dearest = &cheapest, &dearest
		}
		out.Pools = append(out.Pools, one)
	}
	for _, gap := range c.Gaps() {
		out.Gaps = append(out.Gaps, gap.Error())
	}
	return out
}
