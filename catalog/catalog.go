// Package catalog holds the facts about EC2 instance types (sizes, devices, network limits, zones, prices) and the
// formulas that make a node's capacity and allocatable resources of them.
//
// The facts are one compressed file, made by `make generate` (go -C catalog/generate run .) from public Go modules of
// the versions Origin names. They are a table of a stated date, not a quote. The formulas are pure; each names its
// source.
package catalog

import (
	"hash/fnv"
	"slices"
	"strings"
)

// Type is an EC2 instance type.
type Type struct {
	Name              string
	OS                string // of the nodes; "" = linux. EC2 derives it from the image
	VCPU              int
	MemoryMiB         int64   // nominal, as DescribeInstanceTypes gives it
	Arch              string  // amd64 or arm64
	CPUManufacturer   string  // intel, amd or aws
	ClockGHz          float64 // sustained clock, 0 if not known
	Hypervisor        string  // nitro, xen, or "" for bare metal
	BareMetal         bool
	MaxENIs           int // of the default network card
	IPv4PerENI        int
	Pods              int // number of pods that get an address; 0 = as the network interfaces allow
	BranchENIs        int // interfaces for pods with security groups; 0 if the type has no trunk
	NetworkMbps       int // burst bandwidth if the type has a burst
	NetworkBaseMbps   int // sustained bandwidth, Karpenter's label instance-network-bandwidth; 0 if unknown
	EBSMbps           int // baseline
	EBSMaxMbps        int
	LocalNVMeGB       int
	CurrentGeneration bool
	Burstable         bool // CPU credits: t2, t3, t3a, t4g
	GPU               Device
	Accelerator       Device

	Category   string // letters before the generation: c, m, r, inf, trn, u …
	Family     string // such as c7i
	Generation int    // 7 of c7i, 1 of u-6tb1; 0 if the name has none
	Size       string // such as 2xlarge
}

// Device is what a type has several of: GPUs (MiB each) or accelerators (cores each).
type Device struct {
	Manufacturer string // nvidia, amd, habana, aws
	Name         string
	Count        int
	MiB          int // memory of each GPU as sold; DescribeInstanceTypes reports less for some (g5: 22888 of 24576)
	Cores        int // cores of each accelerator
}

// Zone is an availability zone. The letter of the name follows the number in the zone ID; real accounts shuffle the
// two.
type Zone struct{ Name, ID string }

// Offer is a type in a region. Prices are in micro-dollars per hour for Linux on shared tenancy.
type Offer struct {
	Type             *Type
	Zones            []Zone // where the type is offered, by ID; shared: must not be changed
	OnDemand         int64
	Spot             []int64 // spot price in each of Zones on the day of the data; empty if not sold as spot
	SpotAverage      int64   // spot price averaged over time and zones; 0 if unknown
	InterruptionRate string  // class of the last month: "<5%", "5-10%", …; "" if unknown
}

// Lookup finds a type by name.
func Lookup(name string) (*Type, bool) {
	t, ok := load().byName[name]
	return t, ok
}

// Regions returns the names of the regions with prices, sorted.
func Regions() []string { return load().regionNames }

// Origin returns the sources of the data and their dates.
func Origin() string { return load().origin }

// zoneName returns us-west-2b for usw2-az2.
func zoneName(region, id string) string {
	_, n, ok := strings.Cut(id, "-az")
	if !ok || len(n) != 1 || n[0] < '1' || n[0] > '9' {
		return region + "-" + id
	}
	return region + string('a'+n[0]-'1')
}

// spread assigns spot prices, which the source lists without zones, to zones in an order derived from the names, so
// that the cheapest is not always the same zone.
func spread(prices []int64, region, typeName string, zones int) []int64 {
	if len(prices) == 0 {
		return nil
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(region + "/" + typeName))
	out := make([]int64, zones)
	for i := range out {
		out[i] = prices[(i+int(h.Sum32()%uint32(zones)))%len(prices)]
	}
	return out
}

// ClusterPlacement reports whether instances of the type may be in a cluster placement group (EC2 user guide,
// "Placement group rules and limitations").
func (t *Type) ClusterPlacement() bool {
	if !t.CurrentGeneration {
		return slices.Contains([]string{"a1", "c3", "c4", "i2", "m4", "r3", "r4"}, t.Family)
	}
	return !t.Burstable && t.Family != "mac1" && t.Family != "m7i-flex"
}
