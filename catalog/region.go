package catalog

import (
	"slices"
	"strings"
)

// Region is what one region offers. It is immutable, and so are the slices it returns. A nil Region offers nothing.
type Region struct {
	zones  []Zone
	lists  map[string][]Zone // by IDs as the table writes them: thousands of offers share a few lists
	offers []*Offer
	byType map[string]*Offer
}

// Of returns what an AWS region offers; nil if the region is not in the catalog.
func Of(region string) *Region { return load().regions[region] }

// RegionOf returns the region of a zone, which may be a local zone; "" if no region of the catalog has such zones.
func RegionOf(zone string) string {
	found := ""
	for region := range load().regions {
		if strings.HasPrefix(zone, region) && len(region) > len(found) {
			found = region
		}
	}
	return found
}

// Zones returns the availability zones, by ID.
func (r *Region) Zones() []Zone {
	if r == nil {
		return nil
	}
	return r.zones
}

// Offers returns the offered types, by name.
func (r *Region) Offers() []*Offer {
	if r == nil {
		return nil
	}
	return r.offers
}

// Offer returns the offer of a type.
func (r *Region) Offer(typeName string) (*Offer, bool) {
	if r == nil {
		return nil, false
	}
	o, ok := r.byType[typeName]
	return o, ok
}

// OnDemand returns a type's on-demand price, in micro-dollars per hour.
func (r *Region) OnDemand(typeName string) (int64, bool) {
	o, ok := r.Offer(typeName)
	if !ok {
		return 0, false
	}
	return o.OnDemand, true
}

// SpotAverage estimates a type's average spot price in a zone (by name), in micro-dollars per hour: the zone's price
// on the day of the data, scaled so that the mean over the zones is the region's average, which is all that the
// source has.
func (r *Region) SpotAverage(zone, typeName string) (int64, bool) {
	o, ok := r.Offer(typeName)
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
