// Package devices predicts which devices drivers of dynamic resource allocation (DRA) publish for a node of an instance
// type, so that nodes can be launched for pods that claim these devices.
package devices

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NvidiaDriver is the name of NVIDIA's DRA driver for GPUs.
const NvidiaDriver = "gpu.nvidia.com"

// model is a GPU as NVIDIA's management library describes it.
type model struct {
	product, architecture, capability string
	mib                               int64 // usable memory, as nvidia-smi shows it; may be less than the nominal size
}

// models maps EC2's names of NVIDIA's GPUs to their models, smallest memory first. Source of the compute capabilities:
// developer.nvidia.com/cuda-gpus.
var models = map[string][]model{
	"t4":   {{"Tesla T4", "Turing", "7.5.0", 15360}},
	"t4g":  {{"NVIDIA T4G", "Turing", "7.5.0", 15360}},
	"v100": {{"Tesla V100-SXM2-16GB", "Volta", "7.0.0", 16384}, {"Tesla V100-SXM2-32GB", "Volta", "7.0.0", 32768}},
	"a10g": {{"NVIDIA A10G", "Ampere", "8.6.0", 23028}},
	"a100": {{"NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0", 40960}, {"NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0", 81920}},
	"l4":   {{"NVIDIA L4", "Ada Lovelace", "8.9.0", 23034}},
	"l40s": {{"NVIDIA L40S", "Ada Lovelace", "8.9.0", 46068}},
	"h100": {{"NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", 81559}},
	"h200": {{"NVIDIA H200", "Hopper", "9.0.0", 143771}},
}

// Nvidia returns the devices that NVIDIA's driver publishes for whole GPUs, or nil if the GPU is unknown. The name is
// EC2's, such as A10G; mib is the memory of each GPU according to EC2. The devices have the attributes that follow from
// the instance type, but none of an individual GPU or of installed software: no uuid, pcieBusID or driverVersion
// (GpuInfo.GetDevice of github.com/kubernetes-sigs/dra-driver-nvidia-gpu).
func Nvidia(name string, count, mib int) []resourcev1.Device {
	list := models[strings.ToLower(name)]
	if len(list) == 0 {
		return nil
	}
	m := list[0]
	if largest := list[len(list)-1]; 2*int64(mib) > m.mib+largest.mib {
		m = largest
	}
	text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	out := make([]resourcev1.Device, count)
	for i := range out {
		out[i] = resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type": text("gpu"), "productName": text(m.product), "architecture": text(m.architecture),
				"cudaComputeCapability": {VersionValue: &m.capability},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"memory": {Value: *resource.NewQuantity(m.mib<<20, resource.BinarySI)},
			},
		}
	}
	return out
}

// Slice returns the ResourceSlice that a driver publishes for one node: a pool with the node's name and all of its
// devices.
func Slice(node, driver string, list []resourcev1.Device) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Devices: list,
		Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	s.Name = node + "-" + driver
	return s
}
