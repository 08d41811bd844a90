package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// priceFloor says without a plan that nodes which hold so much cannot cost less than so much, whatever else their pods
// need.
type priceFloor struct {
	offers []pricedType
	// rates is, by offer, the least price of it and those before it for one of each measure.
	rates [][mixes + model.MaxResources]float64
}

// pricedType is an offering that can be had, with what daemons leave of its type; cheapest first in priceFloor.
type pricedType struct {
	price        model.Price
	net          *model.Resources
	typ          string
	capacityType string
}

// mixes is how many measures are mixes of CPU and memory, from the one alone to the other alone. The others are each
// other resource by itself.
const mixes = 9

// memoryPerMillicore is how much memory counts as much as a thousandth of a core in a mix of halves.
const memoryPerMillicore = 4 << 30 / 1000.0

// measure returns how much of the measure there is.
func measure(r *model.Resources, m int) float64 {
	if m >= mixes {
		if m -= mixes; m == model.CPU || m == model.Memory {
			return 0 // covered by the mixes
		}
		return float64(r[m])
	}
	share := float64(m) / (mixes - 1)
	return float64((1-share)*float64(r[model.CPU])) + float64(share*float64(r[model.Memory])/memoryPerMillicore)
}

// newPriceFloor returns the floor of the views' offerings, at the price that is given.
func newPriceFloor(views []*rules.View, price func(*rules.Offer) model.Price) *priceFloor {
	f := &priceFloor{}
	for _, v := range views {
		if v.Pool.NotReady != "" {
			continue
		}
		for t := range v.Eligible.All() {
			for i := range v.Offers[t] {
				if o := &v.Offers[t][i]; o.Available {
					f.offers = append(f.offers, pricedType{price(o), &v.Net[t], v.Pool.Types[t].Name, v.Capacities[o.Capacity]})
				}
			}
		}
	}
	slices.SortStableFunc(f.offers, func(a, b pricedType) int { return cmp.Compare(a.price, b.price) })
	f.rates = make([][mixes + model.MaxResources]float64, len(f.offers))
	for i := range f.offers {
		for m := range f.rates[i] {
			rate := math.Inf(1)
			if has := measure(f.offers[i].net, m); has > 0 {
				rate = float64(f.offers[i].price) / has
			}
			if i > 0 {
				rate = min(rate, f.rates[i-1][m])
			}
			f.rates[i][m] = rate
		}
	}
	return f
}

// below returns how many offers cost less.
func (f *priceFloor) below(price model.Price) int {
	n, _ := slices.BinarySearchFunc(f.offers, price, func(o pricedType, price model.Price) int {
		return cmp.Compare(o.price, price)
	})
	return n
}

// cheapestHolding returns the first offer of a type that holds so much, -1 if there is none.
func (f *priceFloor) cheapestHolding(load *model.Resources) int {
	return slices.IndexFunc(f.offers, func(o pricedType) bool { return load.Fits(*o.net) })
}

// reaches reports whether nodes that hold so much together certainly cost the price or more. One node must hold all of
// it. Of several, none costs as much as the whole less the cheapest there is, and each gives no more of any measure for
// its price than the best of those.
func (f *priceFloor) reaches(price model.Price, load *model.Resources) bool {
	if one := f.cheapestHolding(load); one >= 0 && f.offers[one].price < price {
		return false
	}
	if len(f.offers) == 0 {
		return true
	}
	several := f.below(price - f.offers[0].price)
	if several == 0 {
		return true
	}
	const rounding = 1e-9
	for m, rate := range f.rates[several-1] {
		if need := measure(load, m); need > 0 && float64(rate*need) >= float64(price)*(1+rounding) {
			return true
		}
	}
	return false
}

// CostsAtLeast reports, without a plan, whether nodes that hold so much together, whatever else their pods need, cost
// the ceiling or more, and returns the cheapest single offering that holds it. Where none does it reports false: the
// reason is for a plan to find.
func (c *Cluster) CostsAtLeast(load *model.Resources, ceiling Ceiling, policy *model.Policy) (model.Candidate, bool) {
	if c.real == nil {
		views := c.viewsOf(c.pods, policy)
		c.real = newPriceFloor(views, func(o *rules.Offer) model.Price { return o.Real })
		c.effective = newPriceFloor(views, func(o *rules.Offer) model.Price { return o.Price })
	}
	one := c.real.cheapestHolding(load)
	if one < 0 || !c.real.reaches(ceiling.Real, load) && !c.effective.reaches(ceiling.Effective, load) {
		return model.Candidate{}, false
	}
	o := &c.real.offers[one]
	return model.Candidate{OfferingKey: model.OfferingKey{Type: o.typ, CapacityType: o.capacityType}, Price: o.price}, true
}
