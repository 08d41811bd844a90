package region

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// Pool is a pool of EC2 capacity: an instance type in a zone, on demand or spot.
type Pool struct{ Type, Zone, CapacityType string }

func (p Pool) key() string { return p.Type + " " + p.Zone + " " + p.CapacityType }

// market holds what the region offers, its prices and its remaining capacity.
type market struct {
	*core
	offers    *catalog.Region
	pools     map[Pool]*poolState
	spotPools func() []SpotPool
}

type poolState struct {
	running int  // instances
	held    int  // by capacity reservations; instances in them do not count as running
	size    *int // as set by SetCapacity; nil means the simulated default
}

func newMarket(c *core, offers *catalog.Region) *market {
	return &market{
		core: c, offers: offers, pools: map[Pool]*poolState{},
		spotPools: sync.OnceValue(func() []SpotPool { return spotPoolsOf(offers) }),
	}
}

// Zones returns the region's availability zones.
func (m *market) Zones() []catalog.Zone { return m.offers.Zones() }

// Offers returns the types that the region offers, by name.
func (m *market) Offers() []*catalog.Offer { return m.offers.Offers() }

// Type finds a type by name; nil if there is none. Unless Config.Offers is set, it also finds types that AWS offers
// only in other regions.
func (m *market) Type(name string) *catalog.Type {
	if o, ok := m.offers.Offer(name); ok {
		return o.Type
	}
	if t, ok := catalog.Lookup(name); ok && m.config.Offers == nil {
		return t
	}
	return nil
}

// pool returns the state of a pool, creating it on first use.
func (m *market) pool(p Pool) *poolState {
	s := m.pools[p]
	if s == nil {
		s = &poolState{}
		m.pools[p] = s
	}
	return s
}

// size returns how many instances a pool holds when it is full. Common types are plentiful, large and rare ones are
// not: a pool holds about 100,000 vCPUs of a common family and 2,000 of one with devices, and some rare pools hold
// nothing.
func (m *market) size(p Pool) int {
	if s := m.pools[p]; s != nil && s.size != nil {
		return *s.size
	}
	t := m.Type(p.Type)
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
	if m.chance("dry", p.Type, p.Zone, p.CapacityType) < dry {
		return 0
	}
	return int(vcpus * (0.5 + m.chance("size", p.Type, p.Zone, p.CapacityType)) / float64(t.VCPU))
}

// free returns how many more instances a pool can launch; negative if its size was set below its usage.
func (m *market) free(p Pool) int {
	n := m.size(p)
	if s := m.pools[p]; s != nil {
		n -= s.running + s.held
	}
	return n
}

// Capacity returns how many more instances a pool can launch.
func (m *market) Capacity(p Pool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.free(p), 0)
}

// SetCapacity lets a pool launch n more instances from now on.
func (m *market) SetCapacity(p Pool, n int) error {
	if m.offerIn(p.Type, p.Zone) == nil || (p.CapacityType != OnDemand && p.CapacityType != Spot) {
		return apiError("InvalidParameterValue", "There is no pool of %s in %s on '%s'", p.Type, p.Zone, p.CapacityType)
	}
	if n < 0 {
		return apiError("InvalidParameterValue", "count %d: give 0 or more", n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pool(p)
	size := n + s.running + s.held
	s.size = &size
	m.store.put(bucketSizes, p.key(), size)
	return m.commit()
}

// overQuota returns the error of a launch that would exceed the account's quotas, or nil.
func (m *market) overQuota(t *catalog.Type, capacityType string) *APIError {
	switch {
	case capacityType == Spot && m.spotLimitReached():
		return apiError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded: the account may run %d",
			m.config.Quotas.SpotInstances)
	case capacityType != Spot && m.overVCPUs(t.VCPU):
		return apiError("VcpuLimitExceeded",
			"You have requested more vCPU capacity than your current vCPU limit of %d allows "+
				"for the instance bucket that the specified instance type belongs to.", m.config.Quotas.OnDemandVCPUs)
	}
	return nil
}

func (m *market) spotLimitReached() bool {
	spot := 0
	for p, s := range m.pools {
		if p.CapacityType == Spot {
			spot += s.running
		}
	}
	return m.config.Quotas.SpotInstances > 0 && spot >= m.config.Quotas.SpotInstances
}

// overVCPUs reports whether this many more on-demand vCPUs exceed the quota. Reserved capacity counts, used or not
// (EC2 user guide, "On-Demand Capacity Reservations", quotas).
func (m *market) overVCPUs(vcpus int) bool {
	for p, s := range m.pools {
		if x := m.Type(p.Type); x != nil && p.CapacityType != Spot {
			vcpus += (s.running + s.held) * x.VCPU
		}
	}
	return m.config.Quotas.OnDemandVCPUs > 0 && vcpus > m.config.Quotas.OnDemandVCPUs
}

// offerIn returns a zone's offer of a type, or nil.
func (m *market) offerIn(typeName, zone string) *catalog.Offer {
	o, ok := m.offers.Offer(typeName)
	if !ok || !slices.ContainsFunc(o.Zones, func(z catalog.Zone) bool { return z.Name == zone }) {
		return nil
	}
	return o
}

// price returns the current hourly price in micro-dollars.
func (m *market) price(o *catalog.Offer, zone, capacityType string) int64 {
	if capacityType == Spot {
		if p, ok := m.SpotPrice(o.Type.Name, zone, m.clock.Now()); ok {
			return p
		}
	}
	return o.OnDemand
}

// SpotStep is how often a spot price may change.
const SpotStep = time.Hour

// SpotPrice returns the spot price of a type in a zone at a time, in micro-dollars per hour: the catalogue's average,
// moved by two slow waves and hourly noise drawn from the seed. It stays within 60 % to 170 % of the average and never
// exceeds the on-demand price.
func (m *market) SpotPrice(typeName, zone string, at time.Time) (int64, bool) {
	average, ok := m.offers.SpotAverage(zone, typeName)
	if !ok {
		return 0, false
	}
	o, _ := m.offers.Offer(typeName)
	step := at.Unix() / int64(SpotStep/time.Second)
	hours := float64(step)
	phase := func(name string) float64 { return 2 * math.Pi * m.chance(name, typeName, zone) }
	var hour [8]byte
	binary.LittleEndian.PutUint64(hour[:], uint64(step))
	move := 0.15*math.Sin(hours*2*math.Pi/24+phase("day")) + 0.10*math.Sin(hours*2*math.Pi/(24*9)+phase("days")) +
		0.04*m.normal("spot", typeName, zone, string(hour[:]))
	factor := min(max(1+move, 0.6), 1.7)
	return min(int64(float64(average)*factor), o.OnDemand), true
}

// SpotPool is a type that a zone sells as spot.
type SpotPool struct {
	Key  string // TYPE/ZONE/
	Type string
	Zone catalog.Zone
}

// SpotPools returns the types and zones that have a spot price, by key. The list must not be changed.
func (m *market) SpotPools() []SpotPool { return m.spotPools() }

func spotPoolsOf(offers *catalog.Region) []SpotPool {
	var out []SpotPool
	for _, o := range offers.Offers() {
		if len(o.Spot) == 0 {
			continue
		}
		for _, z := range o.Zones {
			out = append(out, SpotPool{o.Type.Name + "/" + z.Name + "/", o.Type.Name, z})
		}
	}
	slices.SortFunc(out, func(a, b SpotPool) int { return cmp.Compare(a.Key, b.Key) })
	return out
}
