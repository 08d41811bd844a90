package catalog

import "slices"

// Region is what one region offers. It is never changed once it can be seen; nor are the slices it gives.
type Region struct {
	zones  []Zone
	lists  map[string][]Zone // by the ids as the table writes them: thousands of offers share a few lists
	offers []*Offer
	byType map[string]*Offer
}

// Of is what a region of AWS offers; nil for one that is not in the catalogue.
func Of(region string) *Region { return load().regions[region] }

// Zones are the availability zones, by ID.
func (r *Region) Zones() []Zone { return r.zones }

// Offers are the types that are offered, by name.
func (r *Region) Offers() []*Offer { return r.offers }

// Offer is what is offered of a type.
func (r *Region) Offer(typeName string) (*Offer, bool) {
	o, ok := r.byType[typeName]
	return o, ok
}

// SpotAverage is an estimate of a type's average spot price in a zone (by name), in micro-dollars per hour: the zone's price
// on the data's day, moved in proportion so that the zones' mean is the region's average, which is all the source has.
func (r *Region) SpotAverage(zone, typeName string) (int64, bool) {
	o, ok := r.byType[typeName]
	if !ok || len(o.Spot) == 0 {
		return 0, false
	}
	i := slices.IndexFunc(o.Zones, func(z Zone) bool { return z.Name == zone })
	if i < 0 {
		return 0, false
	}
	if o.SpotAverage == 0 {
		return o.Spot[i], true
	}
	var sum int64
	for _, p := range o.Spot {
		sum += p
	}
	return o.Spot[i] * o.SpotAverage * int64(len(o.Spot)) / sum, true
}

// Zones are the availability zones of a region, by ID; nil for a region that is not in the catalogue.
func Zones(region string) []Zone {
	if r := Of(region); r != nil {
		return r.Zones()
	}
	return nil
}

// InRegion are the types a region offers, by name. The slice is shared: do not change it.
func InRegion(region string) []*Offer {
	if r := Of(region); r != nil {
		return r.Offers()
	}
	return nil
}

// OfferOf is what a region offers of a type.
func OfferOf(region, typeName string) (*Offer, bool) {
	if r := Of(region); r != nil {
		return r.Offer(typeName)
	}
	return nil, false
}

// OnDemand is a type's on-demand price in a region, in micro-dollars per hour.
func OnDemand(region, typeName string) (int64, bool) {
	o, ok := OfferOf(region, typeName)
	if !ok {
		return 0, false
	}
	return o.OnDemand, true
}

// SpotAverage is Region.SpotAverage of a region by name.
func SpotAverage(region, zone, typeName string) (int64, bool) {
	if r := Of(region); r != nil {
		return r.SpotAverage(zone, typeName)
	}
	return 0, false
}

// InterruptionRate is the class of how often a type's spot instances in a region were interrupted in a month, such as
// "<5%"; false if it is not known.
func InterruptionRate(region, typeName string) (string, bool) {
	o, ok := OfferOf(region, typeName)
	if !ok || o.InterruptionRate == "" {
		return "", false
	}
	return o.InterruptionRate, true
}
