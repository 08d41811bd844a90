package why

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/explain/record"
)

// Offers is what each NodePool may launch.
type Offers struct {
	Pools  []PoolOffers `json:"pools"`
	Prices string       `json:"prices"`
	// Backoff is whether it is known which offerings the cloud had no capacity for lately: only the controller's process
	// does.
	Backoff bool     `json:"backoffKnown"`
	Gaps    []string `json:"notKnown,omitempty"`
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
	// Exhausted are those that the cloud had no capacity for lately, at most maxExhausted of ExhaustedOf.
	Exhausted   []Exhausted `json:"exhausted,omitempty"`
	ExhaustedOf int         `json:"exhaustedOf,omitempty"`
}

// Exhausted is an offering that the cloud had no capacity for lately, and when it is tried again.
type Exhausted struct {
	Type         string    `json:"type"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	RetryAt      time.Time `json:"retryAt"`
}

// maxExhausted is how many exhausted offerings are listed of a pool.
const maxExhausted = 20

// AllOffers asks the engine what each NodePool may launch, whatever pods there are. decided is what the controller
// decided on last, nil if that is in another process.
func AllOffers(c *capture.Cluster, policy model.Policy, decided *model.Snapshot) *Offers {
	s := c.Snapshot()
	out := &Offers{Pools: []PoolOffers{}, Prices: c.Prices(), Backoff: decided != nil}
	for i := range s.Pools {
		p := &s.Pools[i]
		o := query.OffersOf(s, policy, p)
		one := PoolOffers{Pool: p.Name, Offered: o.Offered, Allowed: o.Allowed, Available: o.Available}
		if len(o.Cheapest) > 0 {
			cheapest, dearest := record.OfferOf(o.Cheapest[0]), record.OfferOf(o.Dearest)
			one.Cheapest, one.Dearest = &cheapest, &dearest
		}
		one.exhausted(decided, policy, s.Now)
		out.Pools = append(out.Pools, one)
	}
	for _, gap := range c.Gaps() {
		out.Gaps = append(out.Gaps, gap.Error())
	}
	return out
}

// exhausted adds the pool's exhausted offerings at a time.
func (o *PoolOffers) exhausted(decided *model.Snapshot, policy model.Policy, now time.Time) {
	if decided == nil || decided.Pool(o.Pool) == nil {
		return
	}
	all := query.ExhaustedOf(decided, policy, decided.Pool(o.Pool), now)
	o.ExhaustedOf = len(all)
	for _, x := range all[:min(maxExhausted, len(all))] {
		o.Exhausted = append(o.Exhausted, Exhausted{x.Type, x.Zone, x.CapacityType, x.RetryAt.UTC()})
	}
}
