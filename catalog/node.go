package catalog

import (
	"math"
	"strings"
)

// Kubelet holds the kubelet settings of a node class. The zero value is the default of EKS.
type Kubelet struct {
	MaxPods          *int64 // nil = by network interfaces
	PodsPerCore      int    // 0 = unlimited
	ReservedENIs     int    // interfaces not used for pods; nodeadm ignores them
	EFAOnlyENIs      int    // interfaces of the default network card that have no addresses; never counted
	PrefixDelegation bool
	// KubeReserved and SystemReserved replace the defaults, amount by amount.
	KubeReserved, SystemReserved            Amounts
	EvictionHardMemory, EvictionHardStorage *Threshold // nil = 100 MiB, 10 %
	// ReserveByPods reserves memory for Kubernetes by the pods that the node accepts, as Bottlerocket does.
	ReserveByPods      bool
	Windows            bool     // else Linux; memory is reserved by pods
	RootVolumeBytes    *int64   // nil = 20 GiB; 50 GiB on Windows
	InstanceStoreRAID0 bool     // the node's disk is its local NVMe, if any, instead of the root volume
	VMOverheadPercent  *float64 // fraction of memory that the hypervisor keeps; nil = 0.075
}

// Amounts are CPU in millicores, memory and storage in bytes; nil = not set.
type Amounts struct{ CPU, Memory, Storage *int64 }

// Threshold is a hard eviction threshold: an amount, or a percentage if Percent is not 0.
type Threshold struct {
	Bytes   int64
	Percent float64
}

// of returns the threshold for a total in bytes. The kubelet treats 100 % as no threshold.
func (t Threshold) of(whole int64) int64 {
	switch t.Percent {
	case 0:
		return t.Bytes
	case 100:
		return 0
	}
	return int64(math.Ceil(float64(whole) / 100 * t.Percent))
}

// Node holds the resources of a node. CPU is in millicores, memory and storage in bytes.
type Node struct {
	CPU, MemoryBytes, EphemeralBytes, Pods                            int64
	AllocatableCPU, AllocatableMemoryBytes, AllocatableEphemeralBytes int64
	PodENI, PrivateIPv4                                               int64
}

// DefaultVMOverhead is the fraction of a type's memory that the operating system does not see, as assumed by
// Karpenter (VM_MEMORY_OVERHEAD_PERCENT).
const DefaultVMOverhead = 0.075

const (
	linuxRoot = 20 * gib // root volume of the AL2023 block device mapping
	mib       = int64(1) << 20
	gib       = int64(1) << 30
)

// defaultRoot returns the default size of the volume that holds containers.
func (k Kubelet) defaultRoot() int64 {
	if k.Windows {
		return windowsRoot
	}
	return linuxRoot
}

// EKS's kubelet configuration.
var (
	memoryAvailable = Threshold{Bytes: 100 * mib}
	nodefsAvailable = Threshold{Percent: 10}
)

// NodeOf returns the resources of a node of type t with kubelet settings k, by the rules of EKS's AL2023 images and
// Karpenter's expectations (github.com/aws/karpenter-provider-aws/pkg/providers/instancetype).
func NodeOf(t *Type, k Kubelet) Node {
	disk := or(k.RootVolumeBytes, k.defaultRoot())
	if k.InstanceStoreRAID0 && t.LocalNVMeGB > 0 {
		disk = int64(t.LocalNVMeGB) * 1e9
	}
	memory := VisibleMemoryMiB(t.MemoryMiB, t.Arch, or(k.VMOverheadPercent, DefaultVMOverhead)) * mib
	n := Node{
		CPU: int64(t.VCPU) * 1000, MemoryBytes: memory, EphemeralBytes: disk, Pods: Pods(t, k),
		PodENI: int64(t.BranchENIs),
	}
	if k.Windows { // Windows has no security groups for pods
		n.PodENI, n.PrivateIPv4 = 0, int64(t.WindowsAddresses())
	}
	// Reserve by the pods that all network interfaces allow, even under maxPods, prefixes or reserved interfaces. So
	// does nodeadm, and Karpenter for every AMI family but Bottlerocket and Windows
	// (pkg/providers/instancetype/types.go of v1.14.1).
	pods := MaxPods(t, k.EFAOnlyENIs, false)
	if k.ReserveByPods || k.Windows {
		pods = n.Pods
	}
	left := func(whole int64, kube, system *int64, kubeDefault, eviction int64) int64 {
		return max(whole-or(kube, kubeDefault)-or(system, 0)-eviction, 0)
	}
	kube, system := k.KubeReserved, k.SystemReserved
	n.AllocatableCPU = left(n.CPU, kube.CPU, system.CPU, KubeReservedCPU(t.VCPU), 0)
	n.AllocatableMemoryBytes = left(memory, kube.Memory, system.Memory, KubeReservedMemoryMiB(pods)*mib,
		or(k.EvictionHardMemory, memoryAvailable).of(memory))
	n.AllocatableEphemeralBytes = left(disk, kube.Storage, system.Storage, gib, or(k.EvictionHardStorage,
		nodefsAvailable).of(disk))
	return n
}

func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

// VisibleMemoryMiB returns the memory that an operating system sees: arm64 keeps 64 MiB, the hypervisor a fraction,
// rounded up.
func VisibleMemoryMiB(nominalMiB int64, arch string, overhead float64) int64 {
	if arch == "arm64" {
		nominalMiB -= 64
	}
	return nominalMiB - int64(math.Ceil(float64(nominalMiB)*overhead))
}

// Pods returns the maximum number of pods on a node of the type.
func Pods(t *Type, k Kubelet) int64 {
	allowed := int64(windowsPods)
	if !k.Windows {
		allowed = MaxPods(t, k.ReservedENIs+k.EFAOnlyENIs, k.PrefixDelegation)
	}
	n := or(k.MaxPods, allowed)
	if k.PodsPerCore > 0 {
		n = min(n, int64(k.PodsPerCore)*int64(t.VCPU))
	}
	return n
}

// AutoModeMaxPods is the maximum number of pods on a node of EKS Auto Mode, whatever its interfaces allow (Amazon EKS
// user guide, "Create a Node Class for Amazon EKS", considerations).
const AutoModeMaxPods = 110

// HostPods is how many pods on the host network MaxPods counts: aws-node and kube-proxy.
const HostPods = 2

// MaxPods returns ENIs × (addresses − 1) + 2. Under prefix delegation, which xen lacks, each address is a /28 prefix,
// and EKS recommends at most 110 pods, or 250 above 30 vCPUs. MaxPods returns 110 if the interfaces of the type are
// unknown. Source: amazon-vpc-cni-k8s and the EKS user guide (github.com/aws/amazon-vpc-cni-k8s, README).
func MaxPods(t *Type, reservedENIs int, prefixes bool) int64 {
	enis := int64(t.MaxENIs - reservedENIs)
	if t.MaxENIs == 0 || t.IPv4PerENI == 0 {
		return 110
	}
	if enis <= 0 {
		return 0
	}
	if !prefixes || t.Hypervisor == "xen" {
		return enis*int64(t.IPv4PerENI-1) + HostPods
	}
	most := int64(110)
	if t.VCPU > 30 {
		most = 250
	}
	return min(most, enis*int64(t.IPv4PerENI-1)*PrefixSize+HostPods)
}

// KubeReservedCPU returns 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of the others,
// in millicores. Source: nodeadm and bootstrap.sh of amazon-eks-ami (github.com/awslabs/amazon-eks-ami, nodeadm).
func KubeReservedCPU(cores int) int64 {
	var total int64 // in 1/10000 cores
	for i := range cores {
		switch {
		case i == 0:
			total += 600
		case i == 1:
			total += 100
		case i < 4:
			total += 50
		default:
			total += 25
		}
	}
	return total / 10
}

// KubeReservedMemoryMiB returns 255 MiB plus 11 MiB for each pod that the node may run. Source: as KubeReservedCPU.
func KubeReservedMemoryMiB(maxPods int64) int64 { return 11*maxPods + 255 }

// InstanceID returns the cloud's ID of an instance, which is the last part of its provider ID: i-0123 for
// aws:///us-west-2a/i-0123.
func InstanceID(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}
