package host

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// supplier gives the running guest of a pod what it lacks.
type supplier struct {
	m       *microVM
	vm      *sandbox.VM
	pod     *corev1.Pod
	options podspec.Options // without images
}

// supply gives a running guest what it lacks: the containers that it holds back, new ephemeral containers, and what has
// changed for the next runs of the others, since as with a kubelet each run gets its variables anew. It returns false
// if it must be called again. An ephemeral container that ran in an earlier virtual machine of the pod does not run
// again.
func supply(ctx context.Context, m *microVM, vm *sandbox.VM, pod *corev1.Pod) (complete bool) {
	s, _ := vm.Status()
	if s.Phase == sandbox.Ended || s.Pod.Done {
		return true
	}
	x := supplier{m, vm, pod, m.specOptions(pod, nil)}
	complete = true
	for c, list := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		told := containerOf(s.Pod, c.Name)
		had, _ := podutil.GetContainerStatus(pod.Status.EphemeralContainerStatuses, c.Name)
		if (list == podutil.EphemeralContainers) != (told == nil) || had.ContainerID != "" {
			continue // the guest has not reported it yet or, if it is ephemeral, it has it or must not run it again
		}
		complete = x.container(ctx, c, told) && complete
	}
	return complete
}

// container supplies one container, which is an ephemeral one if the guest has told nothing of it. It returns false if
// the container cannot run yet.
func (x supplier) container(ctx context.Context, c *corev1.Container, told *wire.ContainerStatus) bool {
	if told == nil {
		x.m.h.objects.register(x.pod) // it may refer to objects to which no other container does
	}
	needed := told == nil || awaited(told)
	images := imagesOf(x.m, x.pod, c, needed)
	pulled := hasAll(images, x.pod, c)
	if !pulled && !needed {
		return true // one has left the cache: the next run is like the last one
	}
	spec, err := podspec.Container(ctx, x.pod, c.Name, withImages(x.options, images))
	if ctx.Err() != nil || err != nil && !needed && !errors.Is(err, podspec.ErrMissing) { // it may be readable later
		return true
	}
	if !pulled {
		spec.Held = unpulled(x.m, c.Name)
	}
	if told != nil || spec.Held == nil {
		if err := x.push(ctx, spec, rootsFor(told, images)); err != nil && needed {
			spec.Held = x.refused(ctx, spec, told, err)
		}
	}
	if ctx.Err() == nil && pulled && (told == nil || told.State == wire.Waiting) { // pulls report themselves
		setHeld(x.m, x.pod, c.Name, spec.Held)
	}
	return spec.Held == nil || !needed
}

// rootsFor returns the files of the disks of images, by serial, unless the guest has told that it has them.
func rootsFor(told *wire.ContainerStatus, images map[string]*image.Image) map[string]string {
	out := map[string]string{}
	if told == nil || told.Held {
		for _, i := range images {
			out[serial(i)] = i.Disk
		}
	}
	return out
}

// refused returns why a container that its guest did not take waits, and tells the guest unless it does not know the
// container.
func (x supplier) refused(ctx context.Context, spec wire.Container, told *wire.ContainerStatus, err error) *wire.Held {
	spec.Held = &wire.Held{Reason: "CreateContainerError", Message: err.Error()}
	if told != nil {
		_ = x.push(ctx, spec, nil) // otherwise its state stays the last one
	}
	return spec.Held
}

// awaited reports whether a container waits for its host. One that is held back does not as long as its last run goes
// on, or if it has ended and may never run again.
func awaited(c *wire.ContainerStatus) bool { return c.Held && c.State == wire.Waiting }

// push sends the guest a container unless it has it like this, and the disks that it uses.
func (x supplier) push(ctx context.Context, c wire.Container, roots map[string]string) error {
	m := x.m
	key, sum := pushedContainer+c.Name, suppliedOf(c)
	m.mu.Lock()
	r := m.record
	had, known := m.pushed[key]
	m.mu.Unlock()
	if known && had == sum {
		return nil
	}
	if len(roots) > 0 {
		if err := m.h.records.save(r); err != nil { // the next process must hold the images, too
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pushLimit)
	defer cancel()
	send := x.vm.Supply
	if c.Kind == wire.KindEphemeral {
		send = x.vm.Add
	}
	err := send(ctx, c, roots)
	var refused *wire.RemoteError
	if err == nil || len(roots) == 0 && errors.As(err, &refused) { // an agent of an older release knows no Supply
		m.mu.Lock()
		m.pushed[key] = sum
		m.mu.Unlock()
	}
	return err
}

// setHeld reports, as a kubelet does, why a container cannot be created; nil: it can.
func setHeld(m *microVM, pod *corev1.Pod, container string, held *wire.Held) {
	if held != nil {
		if m.setWaiting(container, corev1.ContainerStateWaiting{Reason: held.Reason, Message: held.Message}) {
			m.h.event(pod, container, corev1.EventTypeWarning, "Failed", "Error: "+held.Message)
		}
		return
	}
	m.mu.Lock()
	_, waited := m.waiting[container]
	if waited {
		m.waiting = cloned(m.waiting)
		delete(m.waiting, container)
	}
	m.mu.Unlock()
	if waited {
		m.h.watchers.Notify(m.record.ID)
	}
}

// unpulled returns why a container waits for an image.
func unpulled(m *microVM, container string) *wire.Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why, ok := m.waiting[container]; ok {
		return &wire.Held{Reason: why.Reason, Message: why.Message}
	}
	return &wire.Held{Reason: "ContainerCreating"} // no pull has failed yet
}
