package nodesim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"

	"github.com/nodeless/nodeless/api/devices"
)

// gpuDriver simulates NVIDIA's driver for dynamic resource allocation. If its DeviceClass exists, which its Helm
// chart installs, it publishes the GPUs of each node.
type gpuDriver struct {
	sim     *Simulator
	classes resourcelisters.DeviceClassLister
}

// classCame makes nodes publish their devices when the driver's class appears.
func (d *gpuDriver) classCame(o any) {
	if class, ok := o.(*resourcev1.DeviceClass); !ok || class.Name != devices.NvidiaDriver {
		return
	}
	s := d.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.booted {
		if m.Type != nil && m.Type.GPU.Manufacturer == "nvidia" {
			s.queue.Add("node/" + name)
		}
	}
}

// publish creates the ResourceSlice of a node with GPUs, once.
func (d *gpuDriver) publish(ctx context.Context, m *Instance, node *corev1.Node) error {
	s := d.sim
	if m.Type == nil || m.Type.GPU.Manufacturer != "nvidia" {
		return nil
	}
	s.mu.Lock()
	b := s.booted[m.Name]
	done := b == nil || b.ID != m.ID || b.published
	s.mu.Unlock()
	if _, err := d.classes.Get(devices.NvidiaDriver); err != nil || done {
		return nil
	}
	slice := devices.Slice(node.Name, devices.NvidiaDriver,
		devices.Nvidia(m.Type.GPU.Name, m.Type.GPU.Count, m.Type.GPU.MiB))
	slice.Name += "-" + string(node.UID) // a node of the same name may have existed before
	slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	_, err := s.client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish the devices of node %s: %w", node.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.published = true
	return nil
}
