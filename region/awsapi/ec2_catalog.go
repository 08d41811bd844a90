package awsapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/catalog"
)

// EC2's spellings of what the catalogue writes in small letters.
var manufacturers = map[string]string{
	"intel": "Intel", "amd": "AMD", "aws": "AWS", "nvidia": "NVIDIA",
	"habana": "Habana", "xilinx": "Xilinx", "qualcomm": "Qualcomm",
}

func manufacturer(name string) string {
	if s, ok := manufacturers[name]; ok {
		return s
	}
	return name
}

func items[T any](list ...T) set[T] { return set[T]{Items: list} }

// typeOf returns a type in the form of DescribeInstanceTypes. What the catalogue lacks (EFA, boot modes, hibernation)
// is reported as absent.
func typeOf(o *catalog.Offer) instanceTypeXML {
	t := o.Type
	x := instanceTypeXML{
		InstanceType: t.Name, CurrentGeneration: t.CurrentGeneration, BareMetal: t.BareMetal, Hypervisor: t.Hypervisor,
		UsageClasses: items("on-demand"), RootDeviceTypes: items("ebs"), VirtualizationTypes: items("hvm"),
		Processor: processorXML{
			Architectures: items(architecture(t.Arch)), ClockSpeedGHz: t.ClockGHz,
			Manufacturer: manufacturer(t.CPUManufacturer),
		},
		VCPU: vcpuOf(t), Memory: mibXML{SizeMiB: t.MemoryMiB},
		EBS: ebsXML{
			OptimizedSupport: "default", Encryption: "supported", NVMeSupport: "required",
			Optimized: &ebsOptimizedXML{BaselineMbps: t.EBSMbps, MaximumMbps: max(t.EBSMbps, t.EBSMaxMbps)},
		},
		Network:        networkOf(t),
		PlacementGroup: placementInfoXML{Strategies: items("cluster", "partition", "spread")},
		Burstable:      strings.HasPrefix(t.Category, "t") && !strings.HasPrefix(t.Category, "trn"),
		AutoRecovery:   true, BootModes: items("uefi"), NitroEnclaves: "unsupported",
	}
	most, shared := catalog.EBSVolumes(t)
	x.EBS.MaximumVolumes, x.EBS.LimitType = most, "dedicated"
	if shared {
		x.EBS.LimitType = "shared"
	}
	if len(o.Spot) > 0 {
		x.UsageClasses.Items = append(x.UsageClasses.Items, "spot")
	}
	if t.Hypervisor == "xen" {
		x.EBS.NVMeSupport, x.BootModes = "unsupported", items("legacy-bios")
	}
	if gb := int64(t.LocalNVMeGB); gb > 0 {
		x.InstanceStorageSupported = true
		x.Storage = &storageXML{
			TotalSizeGB: gb, Disks: items(diskXML{SizeGB: gb, Count: 1, Type: "ssd"}),
			NVMeSupport: "required", Encryption: "required",
		}
	}
	if g := t.GPU; g.Count > 0 {
		x.GPU = &gpusXML{TotalMemoryMiB: int64(g.MiB) * int64(g.Count), GPUs: items(deviceXML{
			Name: g.Name, Manufacturer: manufacturer(g.Manufacturer), Count: g.Count, Memory: &mibXML{SizeMiB: int64(g.MiB)},
		})}
	}
	if a := t.Accelerator; a.Count > 0 && a.Manufacturer == "aws" {
		x.Neuron = &neuronXML{Devices: items(neuronDeviceXML{
			Count: a.Count, Name: a.Name,
			Core: neuronCoreXML{Count: a.Cores},
		})}
	}
	if a := t.Accelerator; a.Count > 0 {
		x.Inference = &inferenceXML{Accelerators: members[deviceXML]{Items: []deviceXML{{
			Name:         a.Name,
			Manufacturer: manufacturer(a.Manufacturer), Count: a.Count,
		}}}}
	}
	return x
}

func architecture(goName string) string {
	if goName == "amd64" {
		return "x86_64"
	}
	return goName
}

// vcpuOf takes two threads per core for x86 and one for Arm.
func vcpuOf(t *catalog.Type) vcpuXML {
	threads := 2
	if t.Arch == "arm64" || t.VCPU < 2 {
		threads = 1
	}
	return vcpuXML{DefaultVCPUs: t.VCPU, DefaultCores: t.VCPU / threads, DefaultThreadsPerCore: threads}
}

func networkOf(t *catalog.Type) networkXML {
	performance := fmt.Sprintf("%g Gigabit", float64(t.NetworkMbps)/1000)
	ena := "required"
	if t.Hypervisor == "xen" {
		ena = "supported"
	}
	return networkXML{
		Performance: performance, MaximumInterfaces: t.MaxENIs, MaximumCards: 1,
		Cards:                    items(networkCardXML{Performance: performance, MaximumInterfaces: t.MaxENIs}),
		IPv4AddressesPerInteface: t.IPv4PerENI, IPv6AddressesPerInteface: t.IPv4PerENI, IPv6Supported: true,
		ENASupport: ena, EncryptionInTransit: catalog.EncryptsInTransit(t),
	}
}

func describeInstanceTypes(c *call) (any, error) {
	offers := c.region.Offers()
	all := make([]instanceTypeXML, len(offers))
	for i, o := range offers {
		all[i] = typeOf(o)
	}
	name := func(t instanceTypeXML) string { return t.InstanceType }
	return described(c, "instanceTypeSet", all, 100, name, naming[instanceTypeXML]{
		"InstanceType", "InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name,
	})
}

type offeringXML struct {
	InstanceType string `xml:"instanceType" filter:"instance-type"`
	LocationType string `xml:"locationType"`
	Location     string `xml:"location" filter:"location"`
}

func describeInstanceTypeOfferings(c *call) (any, error) {
	kind := cmp.Or(c.form.str("LocationType"), "region")
	if !slices.Contains([]string{"region", "availability-zone", "availability-zone-id"}, kind) {
		c.form.bad("LocationType", "region, availability-zone or availability-zone-id")
		return nil, c.form.fail()
	}
	var all []offeringXML
	for _, o := range c.region.Offers() {
		locations := []string{c.region.Name()}
		if kind != "region" {
			locations = nil
		}
		for _, z := range o.Zones {
			switch kind {
			case "availability-zone":
				locations = append(locations, z.Name)
			case "availability-zone-id":
				locations = append(locations, z.ID)
			}
		}
		for _, l := range locations {
			all = append(all, offeringXML{InstanceType: o.Type.Name, LocationType: kind, Location: l})
		}
	}
	return described(c, "instanceTypeOfferingSet", all, 1000,
		func(o offeringXML) string { return o.InstanceType + "/" + o.Location })
}

// getProducts answers Price List's GetProducts for EC2 on demand.
func getProducts(c *call) (any, error) {
	var q productsRequest
	if err := readJSON(c.body, &q); err != nil {
		return nil, err
	}
	name := c.region.Name()
	var offers []priced
	for _, o := range c.region.Offers() {
		offers = append(offers, priced{
			instanceType: o.Type.Name, family: o.Type.Category, regionCode: name, vcpus: o.Type.VCPU,
			memoryMiB: o.Type.MemoryMiB,
			bareMetal: o.Type.BareMetal, currentGeneration: o.Type.CurrentGeneration, dollarsPerHour: float64(o.OnDemand) / 1e6,
		})
	}
	return q.answer(offers)
}
