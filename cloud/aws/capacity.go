package aws

import (
	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

const gib = int64(1) << 30

// sizing is the part of a class that determines the resources of its instances, read once for all types.
type sizing struct {
	kubelet    catalog.Kubelet
	interfaces []*ec2v1.NetworkInterface
	disks      int  // the instance's own EBS volumes
	auto       bool // the nodes are EKS Auto Mode's
}

func (a *account) sizingOf(class *ec2v1.EC2NodeClass) sizing {
	disk, bottlerocket := diskBytes(class), class.AMIFamily() == ec2v1.AMIFamilyBottlerocket
	windows := windowsYear(class.AMIFamily()) != ""
	s := sizing{interfaces: class.Spec.NetworkInterfaces, disks: max(len(disks(class)), 1), auto: isAuto(class)}
	s.kubelet = catalog.Kubelet{
		ReservedENIs: a.reservedENIs(), ReserveByPods: bottlerocket, Windows: windows, RootVolumeBytes: &disk,
		VMOverheadPercent: a.o.VMMemoryOverheadPercent,
		// Windows leaves local disks alone: its script has no parameter for them.
		InstanceStoreRAID0: !windows && class.Spec.InstanceStorePolicy != nil &&
			*class.Spec.InstanceStorePolicy == ec2v1.InstanceStorePolicyRAID0,
	}
	if s.auto { // ENIConfigs are not for it
		s.kubelet.ReservedENIs = 0
		if podNetworkOf(class) != nil {
			s.kubelet.ReservedENIs = 1
		}
	}
	s.kubelet.EFAOnlyENIs = efaOnlyENIs(class)
	k := class.Spec.Kubelet
	if k == nil {
		return s
	}
	if k.MaxPods != nil {
		n := int64(*k.MaxPods)
		s.kubelet.MaxPods = &n
	}
	if k.PodsPerCore != nil && !bottlerocket {
		s.kubelet.PodsPerCore = int(*k.PodsPerCore)
	}
	s.kubelet.KubeReserved, s.kubelet.SystemReserved = reserved(k.KubeReserved), reserved(k.SystemReserved)
	s.kubelet.EvictionHardMemory = evictionHard(k.EvictionHard, "memory.available")
	s.kubelet.EvictionHardStorage = evictionHard(k.EvictionHard, "nodefs.available")
	return s
}

// efaOnlyENIs returns how many interfaces of the first network card have no addresses for pods.
func efaOnlyENIs(class *ec2v1.EC2NodeClass) int {
	n := 0
	for _, i := range class.Spec.NetworkInterfaces {
		if i.NetworkCardIndex == 0 && i.InterfaceType == ec2v1.InterfaceTypeEFAOnly {
			n++
		}
	}
	return n
}

// reserved returns the amounts that a class reserves. It ignores resources that the scheduler does not count, such as
// pid.
func reserved(amounts map[string]string) catalog.Amounts {
	amount := func(name string, value func(*resource.Quantity) int64) *int64 {
		q, err := resource.ParseQuantity(amounts[name])
		if err != nil {
			return nil
		}
		n := value(&q)
		return &n
	}
	return catalog.Amounts{
		CPU:     amount("cpu", (*resource.Quantity).MilliValue),
		Memory:  amount("memory", (*resource.Quantity).Value),
		Storage: amount("ephemeral-storage", (*resource.Quantity).Value),
	}
}

func evictionHard(signals map[string]string, name string) *catalog.Threshold {
	t, err := threshold(signals[name])
	if err != nil { // not set, or in a class that fails validation
		return nil
	}
	return &t
}

// resources returns the capacity of an instance of the type, and how much of it pods may use
// (github.com/aws/karpenter-provider-aws/pkg/providers/instancetype).
func (s sizing) resources(t *ec2types.InstanceTypeInfo) (capacity, allocatable model.Resources) {
	x := typeOf(t)
	if s.auto {
		pods := autoPods(&x, s.kubelet.ReservedENIs, s.kubelet.MaxPods != nil)
		s.kubelet.MaxPods = &pods
	}
	n := catalog.NodeOf(&x, s.kubelet)
	capacity = devices(t)
	capacity[model.Pods], capacity[model.PodENI], capacity[model.EFA] = n.Pods, n.PodENI, s.efas(t)
	capacity[model.PrivateIPv4] = n.PrivateIPv4
	allocatable = capacity
	capacity[model.CPU], capacity[model.Memory], capacity[model.EphemeralStorage] = n.CPU, n.MemoryBytes, n.EphemeralBytes
	allocatable[model.CPU], allocatable[model.Memory] = n.AllocatableCPU, n.AllocatableMemoryBytes
	allocatable[model.EphemeralStorage] = n.AllocatableEphemeralBytes
	return capacity, allocatable
}

// typeOf returns a type's size as EC2 reports it: EC2 knows types that the catalogue lacks.
func typeOf(t *ec2types.InstanceTypeInfo) catalog.Type {
	x := catalog.Type{
		Name: string(t.InstanceType), VCPU: int(cpus(t)), MemoryMiB: memoryMiB(t), Arch: arch(t),
		Hypervisor: string(t.Hypervisor),
		BranchENIs: branchInterfaces(string(t.InstanceType)),
	}
	if i := t.InstanceStorageInfo; i != nil {
		x.LocalNVMeGB = int(awssdk.ToInt64(i.TotalSizeInGB))
	}
	n := t.NetworkInfo
	if n == nil || len(n.NetworkCards) == 0 {
		return x
	}
	card := int(awssdk.ToInt32(n.DefaultNetworkCardIndex))
	if card < 0 || card >= len(n.NetworkCards) {
		card = 0
	}
	x.MaxENIs, x.IPv4PerENI = int(awssdk.ToInt32(n.NetworkCards[card].MaximumNetworkInterfaces)),
		int(awssdk.ToInt32(n.Ipv4AddressesPerInterface))
	return x
}

// devices returns an instance's GPUs and accelerators.
func devices(t *ec2types.InstanceTypeInfo) model.Resources {
	var r model.Resources
	if t.GpuInfo != nil {
		for _, g := range t.GpuInfo.Gpus {
			switch awssdk.ToString(g.Manufacturer) {
			case "NVIDIA":
				r[model.NvidiaGPU] += int64(awssdk.ToInt32(g.Count))
			case "AMD":
				r[model.AMDGPU] += int64(awssdk.ToInt32(g.Count))
			case "Habana":
				r[model.Gaudi] += int64(awssdk.ToInt32(g.Count))
			}
		}
	}
	if t.NeuronInfo != nil {
		for _, d := range t.NeuronInfo.NeuronDevices {
			n := int64(awssdk.ToInt32(d.Count))
			r[model.Neuron] += n
			if d.CoreInfo != nil {
				r[model.NeuronCore] += n * int64(awssdk.ToInt32(d.CoreInfo.Count))
			}
		}
	}
	return r
}

// efas returns how many Elastic Fabric Adapters an instance gets if pods request them.
func (s sizing) efas(t *ec2types.InstanceTypeInfo) int64 {
	if s.interfaces != nil {
		n := int64(0)
		for _, i := range s.interfaces {
			if i.InterfaceType == ec2v1.InterfaceTypeEFAOnly {
				n++
			}
		}
		return n
	}
	if t.NetworkInfo == nil || t.NetworkInfo.EfaInfo == nil {
		return 0
	}
	return int64(awssdk.ToInt32(t.NetworkInfo.EfaInfo.MaximumEfaInterfaces))
}

// defaultDisk is the size of a root volume for which the class sets none.
const defaultDisk = 20 * gib

// dataDevice returns the device that holds containers and their files, by image family.
func dataDevice(family string) string {
	switch {
	case family == ec2v1.AMIFamilyBottlerocket:
		return "/dev/xvdb"
	case windowsYear(family) != "":
		return "/dev/sda1"
	}
	return "/dev/xvda"
}

// diskBytes returns the size of the volume that holds the node's file system: the one marked as root, else that of
// the family's device or, with custom images, the last one.
func diskBytes(class *ec2v1.EC2NodeClass) int64 {
	var last, byName, root *resource.Quantity
	for _, d := range class.Spec.BlockDeviceMappings {
		if d == nil || d.EBS == nil || d.EBS.VolumeSize == nil {
			continue
		}
		last = d.EBS.VolumeSize
		if awssdk.ToString(d.DeviceName) == dataDevice(class.AMIFamily()) {
			byName = d.EBS.VolumeSize
		}
		if d.RootVolume {
			root = d.EBS.VolumeSize
		}
	}
	switch {
	case root != nil:
		return root.Value()
	case class.AMIFamily() == ec2v1.AMIFamilyCustom && last != nil:
		return last.Value()
	case byName != nil:
		return byName.Value()
	}
	for _, d := range defaultDisks(class.AMIFamily()) {
		if *d.DeviceName == dataDevice(class.AMIFamily()) {
			return d.EBS.VolumeSize.Value()
		}
	}
	return defaultDisk
}
