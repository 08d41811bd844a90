package why

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/explain/record"
)

// Offers says what each NodePool may launch.
type Offers struct {
	Pools  []PoolOffers `json:"pools"`
	Prices string       `json:"prices"`
	// Backoff reports whether it is known which offerings recently had no capacity: only the controller's process
	// knows.
	Backoff bool     `json:"backoffKnown"`
	Gaps    []string `json:"notKnown,omitempty"`
}

// PoolOffers counts the types that a pool's node class offers, those that its requirements allow, and those with
// capacity now. It also holds the cheapest and the dearest offer.
type PoolOffers struct {
	Pool      string        `json:"pool"`
	Offered   int           `json:"offered"`
	Allowed   int           `json:"allowed"`
	Available int           `json:"available"`
	Cheapest  *record.Offer `json:"cheapest,omitempty"` // nil, as is Dearest, if none is available
	Dearest   *record.Offer `json:"dearest,omitempty"`
	// Exhausted are the offerings that recently had no capacity, at most maxExhausted of ExhaustedOf.
	Exhausted   []Exhausted `json:"exhausted,omitempty"`
	ExhaustedOf int         `json:"exhaustedOf,omitempty"`
}

// Exhausted is an offering that recently had no capacity, and when it is retried.
type Exhausted struct {
	Type         string    `json:"type"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	RetryAt      time.Time `json:"retryAt"`
}

// maxExhausted is how many exhausted offerings of a pool are listed.
const maxExhausted = 20

// AllOffers returns what each NodePool may launch, regardless of pods. decided is the snapshot of the controller's
// last decision, nil if the controller is another process.
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

// exhausted adds the pool's offerings that are exhausted at the time now.
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
