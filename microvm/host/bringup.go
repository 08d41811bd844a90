package host

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// bringUp starts a microVM. It retries until it succeeds or the microVM must end, and explains in the pod's status
// why the pod is not running yet. The steps:
//
//  1. Wait until the pod is bound, if its objects are read as its Node.
//  2. Try to pull the images.
//  3. Wait until the pod is bound, if it has tokens: they name the Node of a bound pod.
//  4. Translate the pod for the guest, with the contents of its ConfigMaps and Secrets.
//  5. Boot the guest once a container can run, which follow and followChanges watch from then on. The guest holds back
//     containers whose image or configuration is missing; supply gives it those later (ADR 58).
func (m *microVM) bringUp() {
	m.mu.Lock()
	defer close(m.up)
	m.mu.Unlock()
	defer m.h.watchers.Notify(m.record.ID) // the pod may have ended
	if m.h.o.AsNode != nil && !m.awaitBinding() {
		return
	}
	pod := m.current()
	if pod == nil { // fargate-scheduler removes the microVM
		return
	}
	m.h.objects.register(pod)
	if !m.pull(pod) || hasTokens(pod) && !m.awaitBinding() {
		return
	}
	for m.ctx.Err() == nil {
		pod = m.feasible(cmp.Or(m.current(), pod))
		spec, images, err := m.translate(pod)
		switch {
		case m.ctx.Err() != nil:
		case err != nil:
			if m.setWaiting("", corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: err.Error()}) {
				m.h.event(pod, "", corev1.EventTypeWarning, "FailedMount", "MountVolume.SetUp failed: "+err.Error())
			}
		case canBegin(spec):
			if err = m.boot(pod, spec, images); err == nil {
				return
			}
			if m.setWaiting("", corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: err.Error()}) {
				m.h.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox",
					"Failed to create the microVM: "+err.Error())
			}
			pause(m.ctx, m.h.o.Pauses.FirstPull)
			continue
		}
		_ = clock.SleepOr(m.ctx, clock.Real{}, m.h.o.Pauses.Config, m.poked)
	}
}

// canBegin reports whether a container of a pod can run: its first one or, without init containers, any.
func canBegin(pod wire.Pod) bool {
	if first := pod.Containers[0]; first.Kind != wire.KindRegular {
		return first.Held == nil
	}
	return slices.ContainsFunc(pod.Containers, func(c wire.Container) bool { return c.Held == nil })
}

// boot boots the guest and begins to follow it.
func (m *microVM) boot(pod *corev1.Pod, spec wire.Pod, images map[string]*image.Image) error {
	if err := spec.CheckHostname(); err != nil {
		return err
	}
	vm, err := m.run(pod, spec, images)
	if err != nil {
		return err
	}
	if able, _ := m.h.driver.Probe(m.ctx); able.SharesKernel {
		m.h.event(pod, "", corev1.EventTypeWarning, "NoSecurityBoundary",
			"The pod runs in namespaces and not in a virtual machine: it shares the kernel of host "+m.h.o.Name)
	}
	m.routeLogs(vm)
	m.h.work.Go(func() { m.follow(vm) })
	m.h.work.Go(func() { m.followChanges(vm) })
	return nil
}

// translate translates the pod for its guest with the images that it has, which it returns. It reports what holds its
// containers back. An error is one of the pod's volumes.
func (m *microVM) translate(pod *corev1.Pod) (spec wire.Pod, images map[string]*image.Image, err error) {
	m.mu.Lock()
	images = maps.Clone(m.images)
	m.mu.Unlock()
	if spec, err = podspec.Spec(m.ctx, pod, m.specOptions(pod, images)); err != nil {
		return spec, nil, err
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if !hasAll(images, pod, userOf(pod, c.Name)) {
			c.Held = unpulled(m, c.Name)
		} else if m.ctx.Err() == nil {
			setHeld(m, pod, c.Name, c.Held)
		}
	}
	return spec, images, nil
}

// bindingPause is the interval at which awaitBinding checks for the binding.
const bindingPause = 50 * time.Millisecond

// hasTokens reports whether a pod mounts tokens of its service account.
func hasTokens(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources,
			func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// awaitBinding waits until the pod is bound. It returns false if the microVM must end first.
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

// current returns the pod from the API server or, if it has none, the pod passed to Start or found by resume; nil if
// there is neither. Its nodeName is set even before the pod is bound.
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

// containers iterates over the pod's init and regular containers.
func containers(pod *corev1.Pod) iter.Seq2[*corev1.Container, podutil.ContainerType] {
	return podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers)
}

// serial names the disk of an image in a guest; a serial has at most 20 bytes.
func serial(i *image.Image) string { return "image-" + i.ID[len(i.ID)-12:] }

// specOptions returns the options that podspec needs besides the pod. Images may be nil to translate volumes only.
func (m *microVM) specOptions(pod *corev1.Pod, images map[string]*image.Image) podspec.Options {
	ip := m.record.address().String()
	o := podspec.Options{
		Objects: m.h.objects, CPUMilli: m.record.Size.MilliCPU, MemoryBytes: m.record.Size.MemoryBytes,
		PodIP: ip, HostIP: ip, // equal, as on Fargate
	}
	if m.h.o.Services != nil {
		o.Services = m.h.o.Services(pod)
	}
	if m.h.o.Resolve != nil {
		m.h.o.Resolve(pod, &o.Network)
	}
	return withImages(o, images)
}

// withImages returns the options with these images instead of those that they have.
func withImages(o podspec.Options, images map[string]*image.Image) podspec.Options {
	o.Disks, o.Images, o.ImageVolumes = map[string]string{}, map[string]podspec.Image{}, map[string]string{}
	for name, i := range images {
		if volume, ok := strings.CutPrefix(name, imageVolume); ok {
			o.ImageVolumes[volume] = serial(i)
			continue
		}
		o.Images[name], o.Disks[name] = i, serial(i)
	}
	return o
}

// setWaiting records why a container, or with "" the whole pod, has not been started. It reports whether that is new.
func (m *microVM) setWaiting(container string, why corev1.ContainerStateWaiting) bool {
	m.mu.Lock()
	was, known := m.waiting[container]
	changed := !known || was != why
	if changed {
		m.waiting = cloned(m.waiting)
		m.waiting[container] = why
	}
	m.mu.Unlock()
	if changed {
		m.h.watchers.Notify(m.record.ID)
	}
	return changed
}

// run boots the guest.
func (m *microVM) run(pod *corev1.Pod, spec wire.Pod, images map[string]*image.Image) (*sandbox.VM, error) {
	size := m.record.Size
	w := sandbox.Workload{
		ID: m.record.ID, Shape: vmm.Shape{CPUs: int(size.WholeCPUs()), MemoryMiB: int(size.MemoryBytes >> 20)},
		Roots: map[string]string{}, ScratchBytes: size.StorageBytes, Place: &m.record.Place, Pod: spec,
	}
	m.mu.Lock()
	w.After = m.vm
	for i := range w.Pod.Containers {
		if e, ok := m.earlier[w.Pod.Containers[i].Name]; ok {
			w.Pod.Containers[i].Earlier = &e
		}
	}
	m.mu.Unlock()
	for _, i := range images {
		w.Roots[serial(i)] = i.Disk
	}
	if most := vmm.MaxDisks - 1; len(w.Roots) > most {
		return nil, fmt.Errorf("the pod's containers have %d different images, a microVM takes %d", len(w.Roots), most)
	}
	m.mu.Lock()
	m.record.Resources, m.resizeError = resourcesOf(pod), ""
	r := m.record
	m.mu.Unlock()
	if err := m.h.records.save(r); err != nil {
		return nil, fmt.Errorf("record the microVM: %w", err)
	}
	vm, err := m.h.vms.Run(m.ctx, w)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.vm, m.began, m.samples, m.pushed = vm, time.Now(), [2]wire.Stats{}, map[string]uint64{}
	m.waiting = cloned(m.waiting)
	delete(m.waiting, "")
	for _, v := range spec.Volumes {
		m.pushed[v.Name] = contentOf(v)
	}
	for _, c := range spec.Containers {
		m.pushed[pushedContainer+c.Name] = suppliedOf(c)
	}
	stopped := m.stopped
	m.mu.Unlock()
	if stopped { // Stop came before m.vm was set
		m.h.work.Go(func() { m.stop(vm, 0) })
	}
	return vm, nil
}
