package aws

import (
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// BuiltIn returns the instance types that a class allows, as Provider.Catalog does, but from the built-in catalogue
// alone: without calls to AWS, and thus without credentials. Prices are those of the catalogue's date; data that only
// EC2 has, such as EFA, is missing.
//
// The subnets and images of an unresolved class are unknown: BuiltIn then assumes every zone of the region and an image
// for each architecture, and assumed is true. It fails with cloud.ErrClassNotReady if the class itself is wrong.
//
// reservedENIs is the number of interfaces of each node that pods cannot use.
func BuiltIn(class *ec2v1.EC2NodeClass, region string, offers *catalog.Region,
	reservedENIs int,
) (types []model.InstanceType, assumed bool, err error) {
	if problems := validate(class); len(problems) > 0 {
		return nil, false, fmt.Errorf("%s: %s: %w", title(class), strings.Join(problems, "; "), cloud.ErrClassNotReady)
	}
	if assumed = len(class.Status.Subnets) == 0 || len(class.Status.AMIs) == 0; assumed {
		class = assumeResolved(class, offers)
	}
	a := &account{o: Options{
		AWS: awssdk.Config{Region: region}, VMMemoryOverheadPercent: awssdk.Float64(defaultMemoryOverhead),
		ReservedENIs: reservedENIs,
	}}
	return a.assemble(class, builtInOffers(offers), nil, placementGroup{}).types, assumed, nil
}

// assumeResolved returns the class with a subnet in each zone and an image of each architecture.
func assumeResolved(class *ec2v1.EC2NodeClass, offers *catalog.Region) *ec2v1.EC2NodeClass {
	out := class.DeepCopy()
	out.Status.Subnets, out.Status.AMIs = nil, nil
	for _, z := range offers.Zones() {
		out.Status.Subnets = append(out.Status.Subnets, ec2v1.Subnet{Zone: z.Name, ZoneID: z.ID})
	}
	for _, arch := range []string{"amd64", "arm64"} {
		out.Status.AMIs = append(out.Status.AMIs, ec2v1.AMI{Requirements: []corev1.NodeSelectorRequirement{
			{Key: model.LabelArch, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}},
		}})
	}
	return out
}

func builtInOffers(r *catalog.Region) *offers {
	g := &offers{
		generation: 1, zones: map[string]map[string]bool{}, onDemand: map[string]model.Price{},
		spot: map[spotKey]model.Price{},
	}
	for _, o := range r.Offers() {
		name := o.Type.Name
		g.types = append(g.types, builtInType(o))
		g.onDemand[name] = model.Price(o.OnDemand)
		g.zones[name] = map[string]bool{}
		for i, z := range o.Zones {
			g.zones[name][z.Name] = true
			if i < len(o.Spot) {
				g.spot[spotKey{name, z.Name}] = model.Price(o.Spot[i])
			}
		}
	}
	return g
}

// manufacturerNames are EC2's spellings of manufacturers that distinguish devices.
var manufacturerNames = map[string]string{"nvidia": "NVIDIA", "amd": "AMD", "habana": "Habana"}

// builtInType returns the fields of a type that this package reads, as DescribeInstanceTypes would.
func builtInType(o *catalog.Offer) ec2types.InstanceTypeInfo {
	t := o.Type
	most, shared := catalog.EBSVolumes(t)
	limit := ec2types.AttachmentLimitTypeDedicated
	if shared {
		limit = ec2types.AttachmentLimitTypeShared
	}
	out := ec2types.InstanceTypeInfo{
		InstanceType: ec2types.InstanceType(t.Name), Hypervisor: ec2types.InstanceTypeHypervisor(t.Hypervisor),
		SupportedUsageClasses: []ec2types.UsageClassType{ec2types.UsageClassTypeOnDemand},
		ProcessorInfo: &ec2types.ProcessorInfo{
			SupportedArchitectures:   []ec2types.ArchitectureType{architectureOf(t.Arch)},
			SustainedClockSpeedInGhz: awssdk.Float64(t.ClockGHz), Manufacturer: awssdk.String(t.CPUManufacturer),
		},
		VCpuInfo:   &ec2types.VCpuInfo{DefaultVCpus: awssdk.Int32(int32(t.VCPU))},
		MemoryInfo: &ec2types.MemoryInfo{SizeInMiB: awssdk.Int64(t.MemoryMiB)},
		EbsInfo: &ec2types.EbsInfo{
			EbsOptimizedSupport: ec2types.EbsOptimizedSupportDefault, AttachmentLimitType: limit,
			MaximumEbsAttachments: awssdk.Int32(int32(most)),
			EbsOptimizedInfo: &ec2types.EbsOptimizedInfo{MaximumBandwidthInMbps: awssdk.Int32(int32(max(t.EBSMbps,
				t.EBSMaxMbps)))},
		},
		NetworkInfo: &ec2types.NetworkInfo{
			DefaultNetworkCardIndex: awssdk.Int32(0), Ipv4AddressesPerInterface: awssdk.Int32(int32(t.IPv4PerENI)),
			EncryptionInTransitSupported: awssdk.Bool(catalog.EncryptsInTransit(t)),
			NetworkCards: []ec2types.NetworkCardInfo{{
				MaximumNetworkInterfaces: awssdk.Int32(int32(t.MaxENIs)),
				BaselineBandwidthInGbps:  awssdk.Float64(float64(t.NetworkBaseMbps) / 1000),
			}},
		},
	}
	if len(o.Spot) > 0 {
		out.SupportedUsageClasses = append(out.SupportedUsageClasses, ec2types.UsageClassTypeSpot)
	}
	if t.LocalNVMeGB > 0 {
		out.InstanceStorageInfo = &ec2types.InstanceStorageInfo{
			TotalSizeInGB: awssdk.Int64(int64(t.LocalNVMeGB)),
			NvmeSupport:   ec2types.EphemeralNvmeSupportRequired,
		}
	}
	addDevices(&out, t)
	return out
}

// addDevices adds GPUs and accelerators.
func addDevices(out *ec2types.InstanceTypeInfo, t *catalog.Type) {
	if g := t.GPU; g.Count > 0 {
		maker := g.Manufacturer
		if s, ok := manufacturerNames[maker]; ok {
			maker = s
		}
		out.GpuInfo = &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
			Name: awssdk.String(g.Name), Manufacturer: awssdk.String(maker), Count: awssdk.Int32(int32(g.Count)),
			MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: awssdk.Int32(int32(g.MiB))},
		}}}
	}
	a := t.Accelerator
	if a.Count == 0 {
		return
	}
	if a.Manufacturer == "aws" {
		out.NeuronInfo = &ec2types.NeuronInfo{NeuronDevices: []ec2types.NeuronDeviceInfo{{
			Name: awssdk.String(a.Name), Count: awssdk.Int32(int32(a.Count)),
			CoreInfo: &ec2types.NeuronDeviceCoreInfo{Count: awssdk.Int32(int32(a.Cores))},
		}}}
	}
	out.InferenceAcceleratorInfo = &ec2types.InferenceAcceleratorInfo{Accelerators: []ec2types.InferenceDeviceInfo{{
		Name: awssdk.String(a.Name), Manufacturer: awssdk.String(a.Manufacturer), Count: awssdk.Int32(int32(a.Count)),
	}}}
}

func architectureOf(arch string) ec2types.ArchitectureType {
	if arch == "amd64" {
		return ec2types.ArchitectureTypeX8664
	}
	return ec2types.ArchitectureType(arch)
}
