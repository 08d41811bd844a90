package region

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/catalog"
)

// InstanceRequirements selects instance types by their attributes (EC2 API reference, InstanceRequirements).
type InstanceRequirements struct {
	VCPUs, MemoryMiB         Range
	MemoryGiBPerVCPU         Range
	NetworkInterfaces        Range
	LocalStorageGB           Range
	EBSMbps, NetworkGbps     Range
	Accelerators             *Range // nil means any number, including none
	AcceleratorMiB           Range
	AcceleratorTypes         []string // gpu, inference
	AcceleratorManufacturers []string
	AcceleratorNames         []string
	CPUManufacturers         []string // intel, amd, amazon-web-services
	Generations              []string // current, previous
	Allowed, Excluded        []string // names with wildcards
	BareMetal, Burstable     string   // included, required or excluded, which is the default
	LocalStorage             string   // likewise; included is the default
	LocalStorageTypes        []string // ssd, hdd
	// OnDemandOver and SpotOver are by what percentage a type may cost more than the cheapest type of category c, m or
	// r; nil means EC2's default of 20 and 100.
	OnDemandOver, SpotOver *int
	// Written is the JSON that the client sent, returned when it is read back.
	Written json.RawMessage
}

// Range has bounds, both inclusive. A Max of 0 means no upper bound, unless None is set.
type Range struct {
	Min, Max float64
	None     bool // the upper bound is 0
}

func (r Range) has(x float64) bool {
	return x >= r.Min && (r.Max == 0 || x <= r.Max) && !(r.None && x > 0)
}

// InstanceTypesMatching returns the types, by name, that the region offers, that have one of the architectures
// (x86_64 or arm64) and that meet the requirements. It ignores prices, like GetInstanceTypesFromInstanceRequirements.
func (m *market) InstanceTypesMatching(q InstanceRequirements, architectures ...string) []string {
	var out []string
	for _, o := range m.offers.Offers() {
		if slices.Contains(architectures, ec2Architecture(o.Type)) && q.meets(o.Type) {
			out = append(out, o.Type.Name)
		}
	}
	return out
}

func ec2Architecture(t *catalog.Type) string {
	if t.Arch == "arm64" {
		return "arm64"
	}
	return "x86_64"
}

// affordable applies price protection: like EC2, it drops types that cost much more than the cheapest current type of
// category c, m or r among those with the same attributes.
func (m *market) affordable(types []string, q InstanceRequirements, capacityType string) []string {
	over := 20
	if capacityType == Spot {
		over = 100
	}
	if given := map[string]*int{OnDemand: q.OnDemandOver, Spot: q.SpotOver}[capacityType]; given != nil {
		over = *given
	}
	price := func(name string) int64 {
		o, _ := m.offers.Offer(name)
		if capacityType == Spot {
			return o.SpotAverage
		}
		return o.OnDemand
	}
	lowest := int64(0)
	for _, name := range types {
		t, p := m.Type(name), price(name)
		if t.CurrentGeneration && len(t.Category) == 1 && strings.Contains("cmr", t.Category) && p > 0 &&
			(lowest == 0 || p < lowest) {
			lowest = p
		}
	}
	if lowest == 0 {
		return types
	}
	return slices.DeleteFunc(slices.Clone(types), func(name string) bool {
		return float64(price(name)) > float64(lowest)*(1+float64(over)/100)
	})
}

// meets reports whether a type has the required attributes.
func (q InstanceRequirements) meets(t *catalog.Type) bool {
	gib := float64(t.MemoryMiB) / 1024
	generation := "previous"
	if t.CurrentGeneration {
		generation = "current"
	}
	return q.VCPUs.has(float64(t.VCPU)) && q.MemoryMiB.has(float64(t.MemoryMiB)) &&
		q.MemoryGiBPerVCPU.has(gib/float64(t.VCPU)) && q.NetworkInterfaces.has(float64(t.MaxENIs)) &&
		q.EBSMbps.has(float64(t.EBSMbps)) && q.NetworkGbps.has(float64(t.NetworkMbps)/1000) &&
		among(q.CPUManufacturers, makerName(t.CPUManufacturer)) &&
		among(q.Generations, generation) && q.named(t.Name) &&
		allowed(cmp.Or(q.BareMetal, "excluded"), t.BareMetal) && allowed(cmp.Or(q.Burstable, "excluded"), t.Burstable) &&
		q.storage(t) && q.accelerated(t)
}

// makerName returns a manufacturer's name as spelt in requirements.
func makerName(catalogName string) string {
	if catalogName == "aws" {
		return "amazon-web-services"
	}
	return catalogName
}

// named reports whether the lists of names admit a type.
func (q InstanceRequirements) named(name string) bool {
	is := func(pattern string) bool { return Like(pattern, name) }
	return (len(q.Allowed) == 0 || slices.ContainsFunc(q.Allowed, is)) && !slices.ContainsFunc(q.Excluded, is)
}

// among reports whether list contains value; an empty list contains every value.
func among(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

// allowed reports whether a requirement (included, required or excluded) admits a type with or without a feature.
func allowed(want string, has bool) bool { return want == "included" || (want == "required") == has }

func (q InstanceRequirements) storage(t *catalog.Type) bool {
	has := t.LocalNVMeGB > 0
	if !allowed(cmp.Or(q.LocalStorage, "included"), has) || !q.LocalStorageGB.has(float64(t.LocalNVMeGB)) {
		return false
	}
	return !has || among(q.LocalStorageTypes, "ssd") // the catalogue only has NVMe disks
}

// accelerated reports whether a type meets the requirements for GPUs and inference chips.
func (q InstanceRequirements) accelerated(t *catalog.Type) bool {
	d, kind := t.GPU, "gpu"
	if t.Accelerator.Count > 0 {
		d, kind = t.Accelerator, "inference"
	}
	if d.Count == 0 {
		return (q.Accelerators == nil || q.Accelerators.has(0)) && q.AcceleratorMiB.has(0) &&
			len(q.AcceleratorTypes)+len(q.AcceleratorManufacturers)+len(q.AcceleratorNames) == 0
	}
	return (q.Accelerators == nil || q.Accelerators.has(float64(d.Count))) &&
		q.AcceleratorMiB.has(float64(d.Count*d.MiB)) && among(q.AcceleratorTypes, kind) &&
		among(q.AcceleratorManufacturers, makerName(d.Manufacturer)) &&
		among(q.AcceleratorNames, strings.ToLower(d.Name))
}
