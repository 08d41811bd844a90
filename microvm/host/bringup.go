package host

import (
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// bringUp gets the images of a microVM, works out what its guest is told and starts it; what does not succeed is said in the pod's status and tried again
// until it does, or the microVM is to end.
func (m *microVM) bringUp() {
	m.mu.Lock()
	defer close(m.up)
	m.mu.Unlock()
	defer m.h.watchers.Notify(m.record.ID) // that it is no longer brought up may be its end
	if m.h.o.AsNode != nil && !m.awaitBinding() {
		return
	}
	pod := m.current()
	m.h.objects.register(pod)
	images, ok := m.pull(pod)
	if !ok {
		return
	}
	for m.ctx.Err() == nil {
		pod = m.current()
		spec, err := podspec.Spec(m.ctx, pod, m.specOptions(pod, images))
		if err != nil {
			m.reportError(pod, err)
			if !pause(m.ctx, m.h.o.Pauses.Config) {
				return
			}
			continue
		}
		if m.h.o.Resolve != nil {
			m.h.o.Resolve(pod, &spec.Network)
		}
		vm, err := m.run(pod, spec, images)
		if err == nil {
			if able, _ := m.h.driver.Probe(m.ctx); able.SharesKernel {
				m.h.event(pod, "", corev1.EventTypeWarning, "NoSecurityBoundary", "The pod runs in namespaces and not in a virtual machine: it shares the kernel of host "+m.h.o.Name)
			}
			m.routeLogs(vm)
			m.h.work.Go(func() { m.follow(vm) })
			return
		}
		if m.setWaiting(pod, "", corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: err.Error()}) {
			m.h.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create the microVM: "+err.Error())
		}
		if !pause(m.ctx, m.h.o.Pauses.FirstPull) {
			return
		}
	}
}

// bindingPause is how often it is looked whether a pod is bound.
const bindingPause = 50 * time.Millisecond

// awaitBinding waits until the pod is bound: before, its Node may read nothing of what it refers to. It is false if the microVM is to end first.
func (m *microVM) awaitBinding() bool {
	for {
		if pod := m.h.podOf(m.record.UID); pod != nil && pod.Spec.NodeName != "" {
			return true
		}
		if !pause(m.ctx, bindingPause) {
			return false
		}
	}
}

// current is the pod as the API server has it, with the name of its Node even before it is bound; if it is not there, as it was asked for.
func (m *microVM) current() *corev1.Pod {
	pod := m.h.podOf(m.record.UID)
	if pod == nil {
		m.mu.Lock()
		pod = m.pod
		m.mu.Unlock()
	}
	if pod != nil && pod.Spec.NodeName == "" {
		pod = pod.DeepCopy()
		pod.Spec.NodeName = m.h.node(m.record)
	}
	return pod
}

// eachContainer calls f with the pod's containers, init containers first, until it returns false.
func eachContainer(pod *corev1.Pod, f func(c *corev1.Container, path string) bool) {
	for _, list := range []struct {
		containers []corev1.Container
		path       string
	}{{pod.Spec.InitContainers, "spec.initContainers"}, {pod.Spec.Containers, "spec.containers"}} {
		for i := range list.containers {
			if c := &list.containers[i]; !f(c, list.path+"{"+c.Name+"}") {
				return
			}
		}
	}
}

// serial names the disk of an image in a guest; it may have 20 bytes.
func serial(i *image.Image) string { return "image-" + i.ID[len(i.ID)-12:] }

// specOptions are what the translation of the pod needs; images may be nil for its volumes alone.
func (m *microVM) specOptions(pod *corev1.Pod, images map[string]*image.Image) podspec.Options {
	ip := m.record.address().String()
	o := podspec.Options{
		Objects: m.h.objects, CPUMilli: m.record.Size.MilliCPU, MemoryBytes: m.record.Size.MemoryBytes, PodIP: ip, HostIP: ip, // as on Fargate
		Disks: map[string]string{}, Images: map[string]interface {
			Process(image.Container) (image.Process, error)
		}{},
	}
	for name, i := range images {
		o.Images[name], o.Disks[name] = i, serial(i)
	}
	if m.h.o.Services != nil {
		o.Services = m.h.o.Services(pod)
	}
	return o
}

// cannot says why the pod cannot be told to a guest, as a kubelet does: of a container in its state, of a volume by an event.
func (m *microVM) reportError(pod *corev1.Pod, err error) {
	var of *podspec.ContainerError
	switch {
	case m.ctx.Err() != nil:
	case errors.As(err, &of):
		if m.setWaiting(pod, of.Name, corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: of.Err.Error()}) {
			m.h.event(pod, of.Name, corev1.EventTypeWarning, "Failed", "Error: "+of.Err.Error())
		}
	case m.setWaiting(pod, "", corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: err.Error()}):
		m.h.event(pod, "", corev1.EventTypeWarning, "FailedMount", "MountVolume.SetUp failed: "+err.Error())
	}
}

// wait says why a container, or with "" the whole pod, has not been started. It reports whether that is news.
func (m *microVM) setWaiting(pod *corev1.Pod, container string, why corev1.ContainerStateWaiting) bool {
	waiting := map[string]corev1.ContainerStateWaiting{}
	eachContainer(pod, func(c *corev1.Container, _ string) bool {
		if container == "" || c.Name == container {
			waiting[c.Name] = why
		}
		return true
	})
	m.mu.Lock()
	news := !maps.Equal(m.waiting, waiting)
	m.waiting = waiting
	m.mu.Unlock()
	if news {
		m.h.watchers.Notify(m.record.ID)
	}
	return news
}

// run starts the machine.
func (m *microVM) run(pod *corev1.Pod, spec wire.Pod, images map[string]*image.Image) (*sandbox.VM, error) {
	w := sandbox.Workload{
		ID: m.record.ID, Shape: vmm.Shape{CPUs: int((m.record.Size.MilliCPU + 999) / 1000), MemoryMiB: int(m.record.Size.MemoryBytes >> 20)},
		Roots: map[string]string{}, ScratchBytes: m.record.Size.StorageBytes, Place: &m.record.Place, Pod: spec,
	}
	m.mu.Lock()
	w.After = m.vm
	for i := range w.Pod.Containers {
		if e, ok := m.earlier[w.Pod.Containers[i].Name]; ok {
			w.Pod.Containers[i].Earlier = &e
		}
	}
	m.mu.Unlock()
	noted := map[string]imageRecord{}
	for name, i := range images {
		w.Roots[serial(i)] = i.Disk
		noted[name] = imageRecord{ID: i.ID, Digest: i.Digest}
	}
	if most := vmm.MaxDisks - 1; len(w.Roots) > most {
		return nil, fmt.Errorf("the pod's containers have %d different images, a microVM takes %d", len(w.Roots), most)
	}
	m.mu.Lock()
	m.record.Images = noted
	r := m.record
	m.mu.Unlock()
	if err := m.h.records.save(r); err != nil {
		return nil, fmt.Errorf("note the microVM: %w", err)
	}
	vm, err := m.h.vms.Run(m.ctx, w)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.vm, m.waiting, m.began = vm, nil, time.Now()
	for _, v := range spec.Volumes {
		m.pushed[v.Name] = contentOf(v)
	}
	stopped := m.stopped
	m.mu.Unlock()
	if stopped { // Stop did not find the machine
		m.h.work.Go(func() { m.stop(vm, 0) })
	}
	return vm, nil
}
