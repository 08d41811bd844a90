package aws

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// typeKeys are the labels that an instance type determines. Requirements on other keys do not concern the type.
var typeKeys = map[string]bool{
	model.LabelInstanceType: true, model.LabelArch: true, model.LabelOS: true, model.LabelRegion: true,
	ec2v1.LabelInstanceHypervisor: true, ec2v1.LabelInstanceEncryptionInTransitSupported: true,
	ec2v1.LabelInstanceCategory: true, ec2v1.LabelInstanceCapabilityFlex: true, ec2v1.LabelInstanceFamily: true,
	ec2v1.LabelInstanceGeneration: true, ec2v1.LabelInstanceLocalNVME: true, ec2v1.LabelInstanceSize: true,
	ec2v1.LabelInstanceCPU: true, ec2v1.LabelInstanceCPUManufacturer: true,
	ec2v1.LabelInstanceCPUSustainedClockSpeedMhz: true, ec2v1.LabelInstanceMemory: true,
	ec2v1.LabelInstanceEBSBandwidth: true, ec2v1.LabelInstanceNetworkBandwidth: true,
	ec2v1.LabelInstanceGPUName: true, ec2v1.LabelInstanceGPUManufacturer: true, ec2v1.LabelInstanceGPUCount: true,
	ec2v1.LabelInstanceGPUMemory: true, ec2v1.LabelInstanceAcceleratorName: true,
	ec2v1.LabelInstanceAcceleratorManufacturer: true, ec2v1.LabelInstanceAcceleratorCount: true,
	ec2v1.LabelInstanceTenancy: true,
	// No type has these: a requirement that they exist excludes every offering. The labels of capacity reservations
	// belong to the reservation: see reservedChoices.
	ec2v1.LabelCapacityReservationID: true, ec2v1.LabelCapacityReservationType: true,
	ec2v1.LabelCapacityReservationInterruptible: true, ec2v1.LabelPlacementGroupID: true,
	ec2v1.LabelPlacementGroupPartition: true,
	// Linux has none.
	corev1.LabelWindowsBuild: true,
}

const windowsOS = string(corev1.Windows)

// instanceKeys are labels that neither the type nor the zone of an instance determines.
var instanceKeys = []string{
	ec2v1.LabelCapacityReservationID, ec2v1.LabelCapacityReservationType, ec2v1.LabelCapacityReservationInterruptible,
	ec2v1.LabelPlacementGroupID, ec2v1.LabelPlacementGroupPartition,
}

// typeName splits names such as c7gn.2xlarge or u-6tb1.metal: category, generation.
var typeName = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)[^.]*\.`)

// typeLabels returns the labels of every instance of a type
// (github.com/aws/karpenter-provider-aws/pkg/providers/instancetype).
func typeLabels(t *ec2types.InstanceTypeInfo, region string) map[string]string {
	name := string(t.InstanceType)
	l := map[string]string{
		model.LabelInstanceType: name, model.LabelOS: "linux", model.LabelArch: arch(t), model.LabelRegion: region,
		ec2v1.LabelInstanceHypervisor: string(t.Hypervisor), ec2v1.LabelInstanceTenancy: "default",
		ec2v1.LabelInstanceCPU:    strconv.FormatInt(cpus(t), 10),
		ec2v1.LabelInstanceMemory: strconv.FormatInt(memoryMiB(t), 10),
		ec2v1.LabelInstanceEncryptionInTransitSupported: strconv.FormatBool(t.NetworkInfo != nil &&
			awssdk.ToBool(t.NetworkInfo.EncryptionInTransitSupported)),
	}
	if parts := typeName.FindStringSubmatch(name); parts != nil {
		l[ec2v1.LabelInstanceCategory], l[ec2v1.LabelInstanceGeneration] = parts[1], parts[2]
	}
	if family, size, ok := strings.Cut(name, "."); ok {
		l[ec2v1.LabelInstanceFamily], l[ec2v1.LabelInstanceSize] = family, size
		l[ec2v1.LabelInstanceCapabilityFlex] = strconv.FormatBool(strings.Contains(family, "-flex"))
	}
	if p := t.ProcessorInfo; p != nil {
		l[ec2v1.LabelInstanceCPUManufacturer] = kebab(awssdk.ToString(p.Manufacturer))
		if ghz := awssdk.ToFloat64(p.SustainedClockSpeedInGhz); ghz > 0 {
			l[ec2v1.LabelInstanceCPUSustainedClockSpeedMhz] = strconv.Itoa(int(math.Round(ghz * 1000)))
		}
	}
	if e := t.EbsInfo; e != nil && e.EbsOptimizedInfo != nil &&
		e.EbsOptimizedSupport == ec2types.EbsOptimizedSupportDefault {
		l[ec2v1.LabelInstanceEBSBandwidth] = strconv.Itoa(int(awssdk.ToInt32(e.EbsOptimizedInfo.MaximumBandwidthInMbps)))
	}
	if s := t.InstanceStorageInfo; s != nil && s.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported &&
		s.TotalSizeInGB != nil {
		l[ec2v1.LabelInstanceLocalNVME] = strconv.FormatInt(*s.TotalSizeInGB, 10)
	}
	if mbps := networkMbps(t); mbps > 0 {
		l[ec2v1.LabelInstanceNetworkBandwidth] = strconv.FormatInt(mbps, 10)
	}
	acceleratorLabels(t, l)
	for k, v := range l {
		if v == "" {
			delete(l, k)
		}
	}
	return l
}

// acceleratorLabels adds the labels of GPUs and inference chips. An instance with several kinds gets none.
func acceleratorLabels(t *ec2types.InstanceTypeInfo, l map[string]string) {
	if t.GpuInfo != nil && len(t.GpuInfo.Gpus) == 1 {
		g := t.GpuInfo.Gpus[0]
		l[ec2v1.LabelInstanceGPUName] = kebab(awssdk.ToString(g.Name))
		l[ec2v1.LabelInstanceGPUManufacturer] = kebab(awssdk.ToString(g.Manufacturer))
		l[ec2v1.LabelInstanceGPUCount] = strconv.Itoa(int(awssdk.ToInt32(g.Count)))
		if g.MemoryInfo != nil {
			l[ec2v1.LabelInstanceGPUMemory] = strconv.Itoa(int(awssdk.ToInt32(g.MemoryInfo.SizeInMiB)))
		}
	}
	var name, maker string
	var count int32
	switch {
	case t.NeuronInfo != nil && len(t.NeuronInfo.NeuronDevices) == 1:
		d := t.NeuronInfo.NeuronDevices[0]
		name, maker, count = awssdk.ToString(d.Name), "aws", awssdk.ToInt32(d.Count)
	case t.NeuronInfo == nil && t.InferenceAcceleratorInfo != nil && len(t.InferenceAcceleratorInfo.Accelerators) == 1:
		a := t.InferenceAcceleratorInfo.Accelerators[0]
		name, maker, count = awssdk.ToString(a.Name), awssdk.ToString(a.Manufacturer), awssdk.ToInt32(a.Count)
	default:
		return
	}
	l[ec2v1.LabelInstanceAcceleratorName] = kebab(name)
	l[ec2v1.LabelInstanceAcceleratorManufacturer] = kebab(maker)
	l[ec2v1.LabelInstanceAcceleratorCount] = strconv.Itoa(int(count))
}

// networkMbps returns the bandwidth that an instance can sustain over all its network cards; 0 if EC2 does not report
// it.
func networkMbps(t *ec2types.InstanceTypeInfo) int64 {
	if t.NetworkInfo == nil {
		return 0
	}
	sum := 0.0
	for _, c := range t.NetworkInfo.NetworkCards {
		sum += awssdk.ToFloat64(c.BaselineBandwidthInGbps)
	}
	return int64(math.Round(sum * 1000))
}

// typeRequirements returns the labels as requirements, plus the zones and capacity types of the offerings, and the
// zones of reservations.
func typeRequirements(labels map[string]string, offerings []model.Offering, reserved []string,
	zoneIDs map[string]string,
) model.Requirements {
	rs := make([]model.Requirement, 0, len(labels)+3)
	for k, v := range labels {
		rs = append(rs, model.Requirement{Key: k, Values: []string{v}})
	}
	zones := slices.Clone(reserved)
	var ids, kinds []string
	for _, o := range offerings {
		zones, kinds = append(zones, o.Zone), append(kinds, o.CapacityType)
	}
	for _, zone := range zones {
		if id := zoneIDs[zone]; id != "" {
			ids = append(ids, id)
		}
	}
	rs = append(rs, model.OneOf(model.LabelZone, zones...), model.OneOf(model.LabelCapacityType, kinds...))
	if len(ids) > 0 {
		rs = append(rs, model.OneOf(ec2v1.LabelTopologyZoneID, ids...))
	}
	return model.NewRequirements(rs...)
}

// arch returns the architecture by its Kubernetes name; "" if it has none.
func arch(t *ec2types.InstanceTypeInfo) string {
	if t.ProcessorInfo == nil {
		return ""
	}
	for _, a := range t.ProcessorInfo.SupportedArchitectures {
		if k, ok := ec2v1.AWSToKubeArchitectures[string(a)]; ok {
			return k
		}
	}
	return ""
}

func cpus(t *ec2types.InstanceTypeInfo) int64 {
	if t.VCpuInfo == nil {
		return 0
	}
	return int64(awssdk.ToInt32(t.VCpuInfo.DefaultVCpus))
}

func memoryMiB(t *ec2types.InstanceTypeInfo) int64 {
	if t.MemoryInfo == nil {
		return 0
	}
	return awssdk.ToInt64(t.MemoryInfo.SizeInMiB)
}

func kebab(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "-")) }

// branchInterfaces returns how many interfaces for pods with security groups a type supports; 0 if it supports none
// or is too new for the catalogue. EC2 does not report it.
func branchInterfaces(instanceType string) int {
	t, ok := catalog.Lookup(instanceType)
	if !ok {
		return 0
	}
	return t.BranchENIs
}
