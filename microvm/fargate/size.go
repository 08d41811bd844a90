package fargate

import (
	"cmp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Size is the size of a microVM.
type Size struct {
	MilliCPU     int64
	MemoryBytes  int64
	StorageBytes int64 // of the disk that containers write to
}

// fargateOverhead is what Fargate adds to a pod's memory for kubelet, kube-proxy and containerd (EKS User Guide,
// fargate-pod-configuration).
const fargateOverhead = 256 * mib

// shapes are Fargate's combinations: for each amount of CPU, the memory from least to most in GiB by step (EKS User
// Guide, fargate-pod-configuration; its GB are GiB). The smallest shape, with 0.5, 1 and 2 GiB, is not listed.
var shapes = []struct{ milliCPU, least, most, step int64 }{
	{500, 1, 4, 1}, {1000, 2, 8, 1}, {2000, 4, 16, 1}, {4000, 8, 30, 1}, {8000, 16, 60, 4}, {16000, 32, 120, 8},
}

// Table returns every size of Fargate, ordered by CPU, then memory.
func Table() []Size {
	out := []Size{
		{MilliCPU: 250, MemoryBytes: gib / 2},
		{MilliCPU: 250, MemoryBytes: gib},
		{MilliCPU: 250, MemoryBytes: 2 * gib},
	}
	for _, s := range shapes {
		for m := s.least; m <= s.most; m += s.step {
			out = append(out, Size{MilliCPU: s.milliCPU, MemoryBytes: m * gib})
		}
	}
	return out
}

// The minimum size with sizing: Exact, and the memory of a pod that requests none. A pod that requests no CPU gets
// what other pods do not use, as on any node, and counts only as the minimum.
const (
	DefaultMemoryBytes = 256 * mib
	minMilliCPU        = 10
	minMemoryBytes     = 16 * mib
)

// GuestOverhead is the default memory of a guest's kernel and agent: the smallest guest that boots Debian's cloud
// kernel needs this much before any container runs (measured).
const GuestOverhead = 80 * mib

// Ephemeral storage (EKS User Guide, fargate-pod-configuration; AWS containers blog 2024-08).
const (
	defaultStorage = 20 * gib
	maxStorage     = 175 * gib
	storageExtra   = 5 * gib // in addition to a tenth of the request
)

// Requests returns what the containers of a pod request together: for each resource the sum of the regular containers,
// or the maximum while the pod starts, whichever is more. Sidecars count as in upstream Kubernetes.
func Requests(pod *corev1.Pod) Size {
	return SizeOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
}

// Provision returns the size of a pod's microVM; ok is false if Fargate has none that large. overheadBytes is the
// guest's own memory, which counts with sizing: Exact only.
func Provision(spec *v1alpha1.FargateProfileSpec, pod *corev1.Pod, overheadBytes int64) (_ Size, ok bool) {
	want := Requests(pod)
	storage, ok := provisionStorage(spec, want.StorageBytes)
	if !ok {
		return Size{}, false
	}
	if spec.Sizing == v1alpha1.SizingExact {
		return Size{
			MilliCPU: max(want.MilliCPU, minMilliCPU),
			// In whole MiB, the unit in which virtual machine monitors allocate memory.
			MemoryBytes:  roundUp(max(cmp.Or(want.MemoryBytes, DefaultMemoryBytes), minMemoryBytes)+overheadBytes, mib),
			StorageBytes: storage,
		}, true
	}
	for _, row := range Table() {
		if row.MilliCPU >= want.MilliCPU && row.MemoryBytes >= want.MemoryBytes+fargateOverhead {
			row.StorageBytes = storage
			return row, true
		}
	}
	return Size{}, false
}

// provisionStorage returns the disk for a request of ephemeral storage.
func provisionStorage(spec *v1alpha1.FargateProfileSpec, asked int64) (int64, bool) {
	least := int64(defaultStorage)
	if spec.Storage != nil && spec.Storage.Ephemeral != nil {
		least = spec.Storage.Ephemeral.Value()
	}
	switch {
	case asked > maxStorage:
		return 0, false
	case asked <= least:
		return least, true
	}
	return asked + asked/10 + storageExtra, true
}

func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }

// String formats the size like the annotation CapacityProvisioned: 0.25vCPU 0.5GB. Memory is rounded up to
// thousandths.
func (s Size) String() string {
	return decimal(s.MilliCPU, 1000) + "vCPU " + decimal(roundUp(s.MemoryBytes*1000, gib)/gib, 1000) + "GB"
}

// decimal formats n / unit without trailing zeros.
func decimal(n, unit int64) string {
	return strconv.FormatFloat(float64(n)/float64(unit), 'f', -1, 64)
}

// List returns the size as a Node's capacity, without the number of pods.
func (s Size) List() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(s.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(s.MemoryBytes, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(s.StorageBytes, resource.BinarySI),
	}
}

// SizeOf returns the size that resources describe; Size.List does the reverse.
func SizeOf(r corev1.ResourceList) Size {
	return Size{
		MilliCPU: r.Cpu().MilliValue(), MemoryBytes: r.Memory().Value(),
		StorageBytes: r.StorageEphemeral().Value(),
	}
}

// WholeCPUs returns how many CPUs a virtual machine of the size has.
func (s Size) WholeCPUs() int64 { return roundUp(s.MilliCPU, 1000) / 1000 }

// Add returns the sum of two sizes.
func (s Size) Add(t Size) Size {
	return Size{s.MilliCPU + t.MilliCPU, s.MemoryBytes + t.MemoryBytes, s.StorageBytes + t.StorageBytes}
}
