package region

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// Pool is where capacity runs out: a type in a zone on a capacity type.
type Pool struct{ Type, Zone, CapacityType string }

// chance is a number in [0, 1) drawn from the seed and the words; equal words give equal numbers.
func (r *Region) chance(words ...string) float64 {
	h := fnv.New64a()
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], r.c.Seed)
	_, _ = h.Write(seed[:])
	for _, w := range words {
		_, _ = h.Write([]byte(w))
		_, _ = h.Write([]byte{0})
	}
	x := h.Sum64() // FNV leaves the high bits of short inputs alike: mix them (splitmix64's finalizer)
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// normal is a standard normal variate drawn from the seed and the words (Box–Muller).
func (r *Region) normal(words ...string) float64 {
	u := 1 - r.chance(append(words, "u")...)
	v := r.chance(append(words, "v")...)
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// bootTime is how long a machine takes until its kubelet comes up.
func (r *Region) bootTime(id string) time.Duration {
	spread := r.c.Boot.Spread
	if spread == 0 {
		spread = 0.15
	}
	return time.Duration(float64(r.c.Boot.Median) * math.Exp(spread*r.normal("boot", id)))
}

// size is how many machines a pool holds when it is full. Common types are plentiful, large and rare ones are not: a pool
// holds about 100,000 vCPUs of a common family and 2,000 of one with devices, and one rare pool in ten holds nothing.
func (r *Region) size(p Pool) int {
	if n, ok := r.sizes[p]; ok {
		return n
	}
	t := r.Type(p.Type)
	if t == nil {
		return 0
	}
	vcpus, dry := 100_000.0, 0.0
	switch {
	case t.GPU.Count+t.Accelerator.Count > 0:
		vcpus, dry = 2_000, 0.2
	case t.BareMetal || t.VCPU > 128:
		vcpus, dry = 8_000, 0.1
	case !t.CurrentGeneration:
		vcpus = 4_000
	}
	if p.CapacityType == Spot {
		vcpus /= 4
	}
	if r.chance("dry", p.Type, p.Zone, p.CapacityType) < dry {
		return 0
	}
	return int(vcpus * (0.5 + r.chance("size", p.Type, p.Zone, p.CapacityType)) / float64(t.VCPU))
}

// free is how many more machines a pool can give. The caller holds the lock.
func (r *Region) free(p Pool) int { return r.size(p) - r.pools[p] }

// Capacity is how many more machines a pool can give.
func (r *Region) Capacity(p Pool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.free(p), 0)
}

// overQuota is the error for a launch that the account's quotas do not allow, or nil. The caller holds the lock.
func (r *Region) overQuota(t *catalog.Type, capacityType string) *APIError {
	limit := r.c.Quotas.OnDemandVCPUs
	if capacityType == Spot {
		limit = r.c.Quotas.SpotInstances
	}
	if limit == 0 {
		return nil
	}
	spot, vcpus := 0, t.VCPU
	for p, n := range r.pools {
		if p.CapacityType == Spot {
			spot += n
		} else if x := r.Type(p.Type); x != nil {
			vcpus += n * x.VCPU
		}
	}
	switch {
	case capacityType == Spot && spot >= limit:
		return apiError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded: the account may run %d", limit)
	case capacityType != Spot && vcpus > limit:
		return apiError("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to.", limit)
	}
	return nil
}

// SetCapacity makes a pool able to give n more machines from now on.
func (r *Region) SetCapacity(p Pool, n int) error {
	if r.offerIn(p.Type, p.Zone) == nil || (p.CapacityType != OnDemand && p.CapacityType != Spot) {
		return apiError("InvalidParameterValue", "There is no pool of %s in %s on '%s'", p.Type, p.Zone, p.CapacityType)
	}
	if n < 0 {
		return apiError("InvalidParameterValue", "count %d: give 0 or more", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sizes[p] = n + r.pools[p]
	r.store.put(bucketSizes, p.Type+" "+p.Zone+" "+p.CapacityType, r.sizes[p])
	return r.commit()
}

// offerIn is what a zone offers of a type, nil if nothing.
func (r *Region) offerIn(typeName, zone string) *catalog.Offer {
	o, ok := r.goods.Offer(typeName)
	if !ok || !slices.ContainsFunc(o.Zones, func(z catalog.Zone) bool { return z.Name == zone }) {
		return nil
	}
	return o
}

// price is what an hour costs now, in micro-dollars.
func (r *Region) price(o *catalog.Offer, zone, capacityType string) int64 {
	if capacityType == Spot {
		if p, ok := r.SpotPrice(o.Type.Name, zone, r.clock.Now()); ok {
			return p
		}
	}
	return o.OnDemand
}

// spotStep is how often a spot price may change.
const spotStep = time.Hour

// SpotPrice is the spot price of a type in a zone at a time, in micro-dollars per hour: the catalogue's average, moved by
// two slow waves and hourly noise drawn from the seed, within 60 % to 170 % of the average and never above on-demand.
func (r *Region) SpotPrice(typeName, zone string, at time.Time) (int64, bool) {
	average, ok := r.goods.SpotAverage(zone, typeName)
	if !ok {
		return 0, false
	}
	o, _ := r.goods.Offer(typeName)
	step := at.Unix() / int64(spotStep/time.Second)
	hours := float64(step)
	phase := func(name string) float64 { return 2 * math.Pi * r.chance(name, typeName, zone) }
	var hour [8]byte
	binary.LittleEndian.PutUint64(hour[:], uint64(step))
	move := 0.15*math.Sin(hours*2*math.Pi/24+phase("day")) + 0.10*math.Sin(hours*2*math.Pi/(24*9)+phase("days")) +
		0.04*r.normal("spot", typeName, zone, string(hour[:]))
	factor := min(max(1+move, 0.6), 1.7)
	return min(int64(float64(average)*factor), o.OnDemand), true
}

// SpotPricePoint is one entry of a spot price history.
type SpotPricePoint struct {
	Type, Zone  string
	PriceMicros int64
	At          time.Time
}

// SpotPriceHistory is the price of each type and zone at its changes between two times, the price at the first time
// included. Without types it is all of them.
func (r *Region) SpotPriceHistory(types, zones []string, from, to time.Time) []SpotPricePoint {
	var out []SpotPricePoint
	from = from.Truncate(spotStep)
	if to.Sub(from) > 90*24*time.Hour {
		from = to.Add(-90 * 24 * time.Hour).Truncate(spotStep) // EC2 keeps 90 days
	}
	for _, o := range r.goods.Offers() {
		if len(o.Spot) == 0 || (len(types) > 0 && !slices.Contains(types, o.Type.Name)) {
			continue
		}
		for _, z := range o.Zones {
			if len(zones) > 0 && !slices.Contains(zones, z.Name) {
				continue
			}
			for at := from; !at.After(to); at = at.Add(spotStep) {
				p, _ := r.SpotPrice(o.Type.Name, z.Name, at)
				out = append(out, SpotPricePoint{Type: o.Type.Name, Zone: z.Name, PriceMicros: p, At: at})
			}
		}
	}
	return out
}
