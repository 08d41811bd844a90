package awsapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/catalog"
)

// manufacturers maps the catalogue's lower-case names to EC2's spelling.
var manufacturers = map[string]string{
	"intel": "Intel", "amd": "AMD", "aws": "AWS", "nvidia": "NVIDIA",
	"habana": "Habana", "xilinx": "Xilinx", "qualcomm": "Qualcomm",
}

func manufacturer(name string) *string { return new(cmp.Or(manufacturers[name], name)) }

// typeOf converts an offer to the type of DescribeInstanceTypes. What the catalogue does not cover (EFA, boot modes,
// hibernation) is reported as absent.
func typeOf(o *catalog.Offer) types.InstanceTypeInfo {
	t := o.Type
	x := types.InstanceTypeInfo{
		InstanceType: types.InstanceType(t.Name), CurrentGeneration: &t.CurrentGeneration, BareMetal: &t.BareMetal,
		Hypervisor: types.InstanceTypeHypervisor(t.Hypervisor), FreeTierEligible: new(false),
		SupportedUsageClasses:        []types.UsageClassType{types.UsageClassTypeOnDemand},
		SupportedRootDeviceTypes:     []types.RootDeviceType{types.RootDeviceTypeEbs},
		SupportedVirtualizationTypes: []types.VirtualizationType{types.VirtualizationTypeHvm},
		SupportedBootModes:           []types.BootModeType{types.BootModeTypeUefi},
		ProcessorInfo:                processorOf(t), VCpuInfo: vcpusOf(t), EbsInfo: ebsOf(t), NetworkInfo: networkOf(t),
		MemoryInfo: &types.MemoryInfo{SizeInMiB: &t.MemoryMiB}, InstanceStorageSupported: new(false),
		PlacementGroupInfo: &types.PlacementGroupInfo{
			SupportedStrategies: []types.PlacementGroupStrategy{"partition", "spread"},
		},
		BurstablePerformanceSupported: new(strings.HasPrefix(t.Category, "t") && !strings.HasPrefix(t.Category, "trn")),
		AutoRecoverySupported:         new(true), HibernationSupported: new(false), DedicatedHostsSupported: new(false),
		NitroEnclavesSupport: types.NitroEnclavesSupportUnsupported,
	}
	if t.ClusterPlacement() {
		x.PlacementGroupInfo.SupportedStrategies = []types.PlacementGroupStrategy{"cluster", "partition", "spread"}
	}
	if len(o.Spot) > 0 {
		x.SupportedUsageClasses = append(x.SupportedUsageClasses, types.UsageClassTypeSpot)
	}
	if t.Hypervisor == "xen" {
		x.SupportedBootModes = []types.BootModeType{types.BootModeTypeLegacyBios}
	}
	if gb := int64(t.LocalNVMeGB); gb > 0 {
		x.InstanceStorageSupported = new(true)
		x.InstanceStorageInfo = &types.InstanceStorageInfo{
			TotalSizeInGB: &gb, Disks: []types.DiskInfo{{SizeInGB: &gb, Count: new(int32(1)), Type: types.DiskTypeSsd}},
			NvmeSupport: types.EphemeralNvmeSupportRequired, EncryptionSupport: types.InstanceStorageEncryptionSupportRequired,
		}
	}
	addDevices(&x, t)
	return x
}

// addDevices adds a type's GPUs and accelerators.
func addDevices(x *types.InstanceTypeInfo, t *catalog.Type) {
	if g := t.GPU; g.Count > 0 {
		x.GpuInfo = &types.GpuInfo{TotalGpuMemoryInMiB: new(int32(g.MiB * g.Count)), Gpus: []types.GpuDeviceInfo{{
			Name: &g.Name, Manufacturer: manufacturer(g.Manufacturer), Count: new(int32(g.Count)),
			MemoryInfo: &types.GpuDeviceMemoryInfo{SizeInMiB: new(int32(g.MiB))},
		}}}
	}
	a := t.Accelerator
	if a.Count > 0 && a.Manufacturer == "aws" {
		x.NeuronInfo = &types.NeuronInfo{NeuronDevices: []types.NeuronDeviceInfo{{
			Count: new(int32(a.Count)), Name: &a.Name, CoreInfo: &types.NeuronDeviceCoreInfo{Count: new(int32(a.Cores))},
		}}}
	}
	if a.Count > 0 {
		x.InferenceAcceleratorInfo = &types.InferenceAcceleratorInfo{Accelerators: []types.InferenceDeviceInfo{{
			Name: &a.Name, Manufacturer: manufacturer(a.Manufacturer), Count: new(int32(a.Count)),
		}}}
	}
}

func processorOf(t *catalog.Type) *types.ProcessorInfo {
	p := &types.ProcessorInfo{SupportedArchitectures: []types.ArchitectureType{types.ArchitectureType(t.Arch)}}
	if t.Arch == "amd64" {
		p.SupportedArchitectures[0] = types.ArchitectureTypeX8664
	}
	if t.ClockGHz > 0 {
		p.SustainedClockSpeedInGhz = &t.ClockGHz
	}
	if t.CPUManufacturer != "" {
		p.Manufacturer = manufacturer(t.CPUManufacturer)
	}
	return p
}

// vcpusOf assumes two threads per core for x86 and one for Arm.
func vcpusOf(t *catalog.Type) *types.VCpuInfo {
	threads := 2
	if t.Arch == "arm64" || t.VCPU < 2 {
		threads = 1
	}
	return &types.VCpuInfo{
		DefaultVCpus: new(int32(t.VCPU)), DefaultCores: new(int32(t.VCPU / threads)),
		DefaultThreadsPerCore: new(int32(threads)),
	}
}

func ebsOf(t *catalog.Type) *types.EbsInfo {
	volumes, shared := catalog.EBSVolumes(t)
	x := &types.EbsInfo{
		EbsOptimizedSupport: types.EbsOptimizedSupportDefault, EncryptionSupport: types.EbsEncryptionSupportSupported,
		NvmeSupport: types.EbsNvmeSupportRequired, EbsOptimizedInfo: &types.EbsOptimizedInfo{
			BaselineBandwidthInMbps: new(int32(t.EBSMbps)), MaximumBandwidthInMbps: new(int32(max(t.EBSMbps, t.EBSMaxMbps))),
		},
		MaximumEbsAttachments: new(int32(volumes)), AttachmentLimitType: types.AttachmentLimitTypeDedicated,
	}
	if shared {
		x.AttachmentLimitType = types.AttachmentLimitTypeShared
	}
	if t.Hypervisor == "xen" {
		x.NvmeSupport = types.EbsNvmeSupportUnsupported
	}
	return x
}

func networkOf(t *catalog.Type) *types.NetworkInfo {
	performance, interfaces := fmt.Sprintf("%g Gigabit", float64(t.NetworkMbps)/1000), new(int32(t.MaxENIs))
	x := &types.NetworkInfo{
		NetworkPerformance: &performance, MaximumNetworkInterfaces: interfaces, MaximumNetworkCards: new(int32(1)),
		DefaultNetworkCardIndex: new(int32(0)), NetworkCards: []types.NetworkCardInfo{{
			NetworkCardIndex: new(int32(0)), NetworkPerformance: &performance, MaximumNetworkInterfaces: interfaces,
		}},
		Ipv4AddressesPerInterface: new(int32(t.IPv4PerENI)), Ipv6AddressesPerInterface: new(int32(t.IPv4PerENI)),
		Ipv6Supported: new(true), EnaSupport: types.EnaSupportRequired, EfaSupported: new(false),
		EncryptionInTransitSupported: new(catalog.EncryptsInTransit(t)),
	}
	if t.NetworkBaseMbps > 0 {
		x.NetworkCards[0].BaselineBandwidthInGbps = new(float64(t.NetworkBaseMbps) / 1000)
	}
	if t.Hypervisor == "xen" {
		x.EnaSupport = types.EnaSupportSupported
	}
	return x
}

var instanceTypes = kind[types.InstanceTypeInfo]{
	key: "InstanceType", usual: 100,
	filters: `instance-type current-generation free-tier-eligible supported-usage-class supported-root-device-type
		supported-virtualization-type bare-metal hypervisor processor-info.supported-architecture
		processor-info.sustained-clock-speed-in-ghz vcpu-info.default-vcpus vcpu-info.default-cores
		vcpu-info.default-threads-per-core memory-info.size-in-mib instance-storage-supported
		instance-storage-info.total-size-in-gb instance-storage-info.disk.type instance-storage-info.nvme-support
		ebs-info.ebs-optimized-support ebs-info.encryption-support ebs-info.nvme-support
		network-info.network-performance network-info.maximum-network-interfaces network-info.maximum-network-cards
		network-info.ipv4-addresses-per-interface network-info.ipv6-supported network-info.ena-support
		network-info.efa-supported network-info.encryption-in-transit-supported hibernation-supported
		burstable-performance-supported dedicated-hosts-supported auto-recovery-supported supported-boot-mode
		nitro-enclaves-support`,
	ids: []naming{{
		"InstanceTypes", "InstanceType", "InvalidInstanceType",
		"The following supplied instance types do not exist: [%s]",
	}},
}

func describeInstanceTypes(
	c *call, in *ec2.DescribeInstanceTypesInput,
) (*ec2.DescribeInstanceTypesOutput, error) {
	var all []types.InstanceTypeInfo
	for _, o := range c.region.Offers() {
		all = append(all, typeOf(o))
	}
	found, next, err := instanceTypes.answer(in, all)
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: found, NextToken: next}, err
}

var offerings = kind[types.InstanceTypeOffering]{
	key: "InstanceType Location", usual: 1000, filters: "instance-type location",
}

func describeInstanceTypeOfferings(
	c *call, in *ec2.DescribeInstanceTypeOfferingsInput,
) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	by := cmp.Or(in.LocationType, types.LocationTypeRegion)
	if !slices.Contains(by.Values(), by) || by == types.LocationTypeOutpost {
		return nil, invalidParameter("LocationType", string(by), "region, availability-zone or availability-zone-id")
	}
	var all []types.InstanceTypeOffering
	for _, o := range c.region.Offers() {
		locations := []string{c.region.Name()}
		if by != types.LocationTypeRegion {
			locations = nil
			for _, z := range o.Zones {
				locations = append(locations, map[types.LocationType]string{
					types.LocationTypeAvailabilityZone: z.Name, types.LocationTypeAvailabilityZoneId: z.ID,
				}[by])
			}
		}
		for _, l := range locations {
			all = append(all, types.InstanceTypeOffering{
				InstanceType: types.InstanceType(o.Type.Name), LocationType: by, Location: &l,
			})
		}
	}
	found, next, err := offerings.answer(in, all)
	return &ec2.DescribeInstanceTypeOfferingsOutput{InstanceTypeOfferings: found, NextToken: next}, err
}
