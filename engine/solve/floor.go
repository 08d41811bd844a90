package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// floor says without a plan that machines which hold so much cannot cost less than so much, whatever else their pods want.
type floor struct {
	offers []bargain                 // that can be had, cheapest first
	rates  [][mixes + others]float64 // by offer: the least price, of it and those before it, for one of each measure
}

// bargain is an offering with what daemons leave of its type.
type bargain struct {
	price model.Price
	net   *model.Resources
	typ   string
	offer string // its capacity type
}

// Measures are mixes of CPU and memory, from the one alone to the other alone, and each other resource by itself.
const (
	mixes  = 9
	others = model.MaxResources
)

// gibibytes4 is how much memory counts as much as a thousandth of a core in a mix of halves.
const gibibytes4 = 4 << 30 / 1000.0

// measure is how much of the measure there is.
func measure(r *model.Resources, m int) float64 {
	if m >= mixes {
		if m -= mixes; m == model.CPU || m == model.Memory {
			return 0 // which are mixes
		}
		return float64(r[m])
	}
	share := float64(m) / (mixes - 1)
	return float64((1-share)*float64(r[model.CPU])) + float64(share*float64(r[model.Memory])/gibibytes4)
}

// newFloor is one of the views' offerings, at the price that is given.
func newFloor(views []*rules.View, price func(*rules.Offer) model.Price) *floor {
	f := &floor{}
	for _, v := range views {
		for t := range v.Offers {
			if v.Pool.NotReady != "" || !v.Eligible.Has(t) {
				continue
			}
			for i := range v.Offers[t] {
				if o := &v.Offers[t][i]; o.Available {
					f.offers = append(f.offers, bargain{price(o), &v.Net[t], v.Pool.Types[t].Name, v.Capacities[o.Capacity]})
				}
			}
		}
	}
	slices.SortStableFunc(f.offers, func(a, b bargain) int { return cmp.Compare(a.price, b.price) })
	f.rates = make([][mixes + others]float64, len(f.offers))
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

// below is how many offers cost less.
func (f *floor) below(price model.Price) int {
	n, _ := slices.BinarySearchFunc(f.offers, price, func(b bargain, price model.Price) int { return cmp.Compare(b.price, price) })
	return n
}

// holding is the first offer of a type that holds so much, -1 if there is none.
func (f *floor) holding(holds *model.Resources) int {
	return slices.IndexFunc(f.offers, func(b bargain) bool { return holds.Fits(*b.net) })
}

// reaches reports whether machines that hold so much together cost the price or more for certain. One machine must hold all of it. Of
// several none costs as much as the whole less the cheapest there is, and each gives no more of any measure for its price than
// the best of those.
func (f *floor) reaches(price model.Price, holds *model.Resources) bool {
	if one := f.holding(holds); one >= 0 && f.offers[one].price < price {
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
		if asked := measure(holds, m); asked > 0 && float64(rate*asked) >= float64(price)*(1+rounding) {
			return true
		}
	}
	return false
}

// Dearer reports whether machines that hold so much together, whatever else their pods want, cost as much as below says or more, as
// one finds out without a plan; and names the cheapest single one that does hold it. Where none does it says no: why there
// is none is for a plan to say.
func (x *Places) Dearer(holds *model.Resources, below Below, policy *model.Policy) (model.Candidate, bool) {
	if x.real == nil {
		views := x.viewsOf(x.pods, policy)
		x.real = newFloor(views, func(o *rules.Offer) model.Price { return o.Real })
		x.effective = newFloor(views, func(o *rules.Offer) model.Price { return o.Price })
	}
	one := x.real.holding(holds)
	if one < 0 || !x.real.reaches(below.Real, holds) && !x.effective.reaches(below.Effective, holds) {
		return model.Candidate{}, false
	}
	o := &x.real.offers[one]
	return model.Candidate{OfferingKey: model.OfferingKey{Type: o.typ, CapacityType: o.offer}, Price: o.price}, true
}
