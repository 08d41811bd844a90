package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Own is a custom catalog, which a simulated region offers instead of EC2's types. Its file format is JSON.
type Own struct {
	Zones []string  `json:"zones"` // names
	Types []OwnType `json:"types"`
}

// OwnType is a custom type, offered in every zone.
type OwnType struct {
	Name      string  `json:"name"`
	VCPU      int     `json:"vcpu"`
	MemoryMiB int64   `json:"memoryMiB"`      // as its operating system sees it
	Arch      string  `json:"arch,omitempty"` // amd64 (default) or arm64
	OS        string  `json:"os,omitempty"`   // linux (default) or windows
	Pods      int     `json:"pods,omitempty"` // default 110
	OnDemand  float64 `json:"onDemand"`       // dollars per hour
	// Labels are set on the type's nodes in addition to EC2's, and override them; requirements may use them.
	Labels map[string]string `json:"labels,omitempty"`
	Spot   float64           `json:"spot,omitempty"` // average, dollars per hour; 0 = not sold as spot
}

// ReadOwn parses a custom catalog.
func ReadOwn(text []byte) (*Own, error) {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	own := &Own{}
	if err := decoder.Decode(own); err != nil {
		return nil, fmt.Errorf("catalogue of own types: %w", err)
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("catalogue of own types: something follows the object; one file is one catalogue")
	}
	return own, nil
}

// maxZones is the number of zones for which the simulated network has subnets; no real region has that many.
const maxZones = 100

// Region returns the catalog as a region. The error names the type and its fault.
func (own *Own) Region() (*Region, error) {
	if len(own.Zones) == 0 || len(own.Types) == 0 {
		return nil, errors.New("catalogue of own types: give at least one zone and one type")
	}
	if len(own.Zones) > maxZones {
		return nil, fmt.Errorf("catalogue of own types: %d zones: give at most %d", len(own.Zones), maxZones)
	}
	r := &Region{byType: map[string]*Offer{}}
	for i, name := range own.Zones {
		zone := Zone{Name: name, ID: fmt.Sprintf("own-az%d", i+1)}
		if name == "" || slices.ContainsFunc(r.zones, func(z Zone) bool { return z.Name == name }) {
			return nil, fmt.Errorf("catalogue of own types: zone %q: names must be unique and not empty", name)
		}
		r.zones = append(r.zones, zone)
	}
	for _, t := range own.Types {
		if err := t.validate(); err != nil {
			return nil, fmt.Errorf("catalogue of own types: type %q: %w", t.Name, err)
		}
		if r.byType[t.Name] != nil {
			return nil, fmt.Errorf("catalogue of own types: type %q is there twice", t.Name)
		}
		o := &Offer{Type: t.entry(), Zones: r.zones, OnDemand: micros(t.OnDemand)}
		for range r.zones {
			if t.Spot > 0 {
				o.Spot = append(o.Spot, micros(t.Spot))
			}
		}
		r.offers = append(r.offers, o)
		r.byType[t.Name] = o
	}
	slices.SortFunc(r.offers, func(a, b *Offer) int { return strings.Compare(a.Type.Name, b.Type.Name) })
	return r, nil
}

// Labels returns the labels of a type.
func (own *Own) Labels(typeName string) map[string]string {
	for i := range own.Types {
		if t := &own.Types[i]; t.Name == typeName {
			return t.labels()
		}
	}
	return nil
}

// labels returns the type's labels, including the operating system, which EC2's types lack.
func (t *OwnType) labels() map[string]string {
	out := map[string]string{}
	if t.OS != "" {
		out["kubernetes.io/os"] = t.OS
	}
	maps.Copy(out, t.Labels)
	return out
}

// minPods is the capacity of one interface with one address for pods, plus two host-network pods.
const minPods = 3

func (t OwnType) validate() error {
	switch {
	case t.Name == "":
		return errors.New("give it a name")
	case t.VCPU < 1 || t.VCPU > 10_000:
		return fmt.Errorf("vcpu %d: give 1 to 10000", t.VCPU)
	case t.MemoryMiB < 128 || t.MemoryMiB > 1<<30:
		return fmt.Errorf("memoryMiB %d: give 128 to 1073741824", t.MemoryMiB)
	case t.Arch != "" && t.Arch != "amd64" && t.Arch != "arm64":
		return fmt.Errorf("arch %q: use amd64 or arm64", t.Arch)
	case t.OS != "" && t.OS != "linux" && t.OS != "windows":
		return fmt.Errorf("os %q: use linux or windows", t.OS)
	case t.Pods != 0 && (t.Pods < minPods || t.Pods > 10_000):
		return fmt.Errorf("pods %d: give %d to 10000", t.Pods, minPods)
	case !(t.OnDemand >= 1e-6 && t.OnDemand < 1e6):
		return fmt.Errorf("onDemand %v: give dollars per hour", t.OnDemand)
	case !(t.Spot == 0 || t.Spot >= 1e-6 && t.Spot <= t.OnDemand):
		return fmt.Errorf("spot %v: give dollars per hour, no more than onDemand", t.Spot)
	}
	return nil
}

// entry returns the type as a catalog entry. EC2 expresses the number of pods by network interfaces: the entry has
// one interface with as many addresses as the usual formula (MaxPods) needs.
func (t OwnType) entry() *Type {
	pods := cmp.Or(t.Pods, 110)
	arch := cmp.Or(t.Arch, "amd64")
	maker := "intel"
	if arch == "arm64" {
		maker = "aws"
	}
	return &Type{
		Name: t.Name, OS: t.OS, VCPU: t.VCPU, MemoryMiB: nominal(t.MemoryMiB, arch), Arch: arch, CPUManufacturer: maker,
		Hypervisor: "nitro",
		MaxENIs:    1, IPv4PerENI: pods - 1, Pods: pods, NetworkMbps: 10_000, NetworkBaseMbps: 10_000, EBSMbps: 5_000,
		EBSMaxMbps:        5_000,
		CurrentGeneration: true,
	}
}

// nominal returns the memory that EC2 would report for a type whose operating system sees that much by default.
func nominal(visible int64, arch string) int64 {
	mib := int64(float64(visible) / (1 - DefaultVMOverhead))
	for VisibleMemoryMiB(mib, arch, DefaultVMOverhead) < visible {
		mib++
	}
	return mib
}

func micros(dollars float64) int64 { return int64(math.Round(dollars * 1e6)) }
