package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// priceFloor gives lower bounds on the price of nodes that together hold a load, without making a plan.
type priceFloor struct {
	offers []pricedType
	// rates is, by offer and measure, the lowest price per unit among the offer and those before it.
	rates [][mixes + model.MaxResources]float64
}

// pricedType is an available offering with the allocatable resources that daemons leave; cheapest first in priceFloor.
type pricedType struct {
	price        model.Price
	real         model.Price
	net          *model.Resources
	typ          string
	capacityType string
}

// mixes is the number of measures that combine CPU and memory, from CPU alone to memory alone. Each other resource is
// a measure of its own.
const mixes = 9

// memoryPerMillicore is the amount of memory that weighs as much as a thousandth of a core in an even mix.
const memoryPerMillicore = 4 << 30 / 1000.0

// measure returns the amount of resources by measure m.
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

// newPriceFloor returns the floor of the views' offerings by effective price.
func newPriceFloor(views []*rules.View) *priceFloor {
	f := &priceFloor{}
	for _, v := range views {
		if v.Pool.NotReady != "" {
			continue
		}
		for t := range v.Eligible.All() {
			for i := range v.Offers[t] {
				if o := &v.Offers[t][i]; o.Available {
					f.offers = append(f.offers, pricedType{
						o.Price, o.Real, &v.Net[t], v.Pool.Types[t].Name, v.Capacities[o.Capacity],
					})
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

// cheapestHolding returns the index of the cheapest offering whose type holds the load alone, -1 if there is none.
func (f *priceFloor) cheapestHolding(load *model.Resources) int {
	return slices.IndexFunc(f.offers, func(o pricedType) bool { return load.Fits(*o.net) })
}

// reaches reports whether nodes that together hold the load certainly cost the price or more. If one node holds all
// of it, it costs at least as much as the cheapest such offering. If there are several nodes, none of them costs more
// than the price less the cheapest offering, and for each measure they give no more per dollar than the best of those
// offerings.
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

// CostsAtLeast reports, without making a plan, whether nodes that together hold the load cost the ceiling or more,
// and returns the cheapest single offering that holds it. If no offering does, it reports false: then a plan must
// find the reason.
func (c *Cluster) CostsAtLeast(load *model.Resources, ceiling model.Price,
	policy *model.Policy,
) (model.Candidate, bool) {
	if c.floor == nil {
		c.floor = newPriceFloor(c.viewsOf(c.pods, policy))
	}
	one := c.floor.cheapestHolding(load)
	if one < 0 || !c.floor.reaches(ceiling, load) {
		return model.Candidate{}, false
	}
	o := &c.floor.offers[one]
	return model.Candidate{OfferingKey: model.OfferingKey{Type: o.typ, CapacityType: o.capacityType}, Price: o.real}, true
}
