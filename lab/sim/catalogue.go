package sim

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// Catalogue selects the instance types of a region that may be launched: the c, m and r families of amd64 with a
// generation above 2.
type Catalogue struct {
	Region  string // "" = us-east-1
	Zones   int    // the number of the region's zones; 0 = one
	MaxVCPU int    // of a type; 0 = any
	GPUs    bool   // include the g and p families
	Spot    bool   // include spot offerings
}

// Types returns the catalogue's types, with EKS's overhead and the region's prices.
func (c Catalogue) Types() []model.InstanceType {
	region := cmp.Or(c.Region, "us-east-1")
	var zones []string
	for i, z := range catalog.Of(region).Zones() {
		if i < max(c.Zones, 1) {
			zones = append(zones, z.Name)
		}
	}
	return Types(region, zones, c.admits, c.Spot)
}

// Types returns the region's instance types that admit accepts and the zones offer, sorted by Name, with EKS's
// overhead, the labels that every type has and the region's prices of instances and root volumes.
func Types(region string, zones []string, admit func(*catalog.Type) bool, spot bool) []model.InstanceType {
	side := catalog.VolumePrice(region, catalog.Volume{Type: "gp3", GiB: 20}) // the root volume of an AL2023 node
	var out []model.InstanceType
	for _, o := range catalog.Of(region).Offers() {
		if !admit(o.Type) {
			continue
		}
		t := typeOf(o.Type)
		add := func(zone, capacityType string, instance int64) {
			t.Offerings = append(t.Offerings, model.Offering{
				Zone: zone, CapacityType: capacityType, Price: model.Price(instance + side), SidePrice: model.Price(side),
				Available: true,
			})
		}
		for i, z := range o.Zones {
			if !slices.Contains(zones, z.Name) {
				continue
			}
			if o.OnDemand > 0 {
				add(z.Name, model.OnDemand, o.OnDemand)
			}
			if spot && i < len(o.Spot) && o.Spot[i] > 0 {
				add(z.Name, model.Spot, o.Spot[i])
			}
		}
		if len(t.Offerings) == 0 {
			continue
		}
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
		})
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b model.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (c Catalogue) admits(t *catalog.Type) bool {
	if t.Arch != "amd64" || t.Generation <= 2 || c.MaxVCPU > 0 && t.VCPU > c.MaxVCPU {
		return false
	}
	switch t.Category {
	case "c", "m", "r":
		return true
	case "g", "p":
		return c.GPUs
	}
	return false
}

func typeOf(x *catalog.Type) model.InstanceType {
	n := catalog.NodeOf(x, catalog.Kubelet{})
	capacity := model.Resources{
		model.CPU: n.CPU, model.Memory: n.MemoryBytes,
		model.EphemeralStorage: n.EphemeralBytes, model.Pods: n.Pods,
	}
	switch x.GPU.Manufacturer {
	case "nvidia":
		capacity[model.NvidiaGPU] = int64(x.GPU.Count)
	case "amd":
		capacity[model.AMDGPU] = int64(x.GPU.Count)
	}
	allocatable := capacity
	allocatable[model.CPU], allocatable[model.Memory] = n.AllocatableCPU, n.AllocatableMemoryBytes
	allocatable[model.EphemeralStorage] = n.AllocatableEphemeralBytes
	return model.InstanceType{
		Name: x.Name, Capacity: capacity, Allocatable: allocatable,
		Requirements: model.NewRequirements(
			model.OneOf(model.LabelInstanceType, x.Name), model.OneOf(model.LabelArch, x.Arch),
			model.OneOf(model.LabelOS, "linux")),
	}
}
