package host

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// follow reports the events and status changes of a virtual machine until it ends, and then restarts the pod if it
// must.
func (m *microVM) follow(vm *sandbox.VM) {
	told, owed := false, ""
	for {
		s, changed := vm.Status()
		if pod := m.current(); pod != nil {
			for _, e := range vm.TakeEvents() {
				m.h.event(pod, e.Container, eventType(e.Warning), e.Reason, e.Message)
			}
			// If the virtual machine was lost or did not begin, and the pod gets another one, the pod did not fail.
			again := (vm.Lost() || unprepared(s)) && shouldRestart(pod, s)
			if s.Phase == sandbox.Ended && s.Failure != "" && !told && !again {
				told = true
				m.h.event(pod, "", corev1.EventTypeWarning, "MicroVMFailed", s.Failure)
			}
		}
		m.h.watchers.Notify(m.record.ID)
		if s.Phase == sandbox.Ended {
			if !m.restart(s) {
				m.cancel() // it needs no more images
				m.release()
			}
			return
		}
		if now := owedTo(s); now != owed {
			owed = now
			m.poked.Set()
		}
		if s.Phase == sandbox.Running && !m.measured() {
			m.h.work.Go(m.measure)
		}
		select {
		case <-changed:
		case <-m.h.ctx.Done():
			return
		}
	}
}

// owedTo describes what decides whether the host must supply a guest: whether it has begun, and which containers wait
// for the host.
func owedTo(s sandbox.Status) string {
	owed := string(s.Phase)
	for i := range s.Pod.Containers {
		if c := &s.Pod.Containers[i]; awaited(c) {
			owed += " " + c.Name
		}
	}
	return owed
}

// resume takes over a microVM from an earlier process.
func (m *microVM) resume() {
	pod := m.h.podOf(m.record.UID)
	if pod != nil {
		m.h.objects.register(pod)
		m.mu.Lock()
		m.pod = pod
		if m.record.Resources == nil { // an earlier release wrote the record
			m.record.Resources = resourcesOf(pod)
		}
		m.mu.Unlock()
	}
	if pod != nil && (m.vm == nil || m.vm.Lost()) && pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		m.mu.Lock()
		m.earlier = podspec.Earlier(pod, wire.PodStatus{}, time.Now())
		m.mu.Unlock()
	}
	switch {
	case m.record.Removing:
		close(m.up)
		m.removing = true
		m.h.work.Go(m.remove)
	case m.vm != nil:
		close(m.up)
		m.holdImages()
		vm := m.vm
		m.routeLogs(vm)
		m.h.work.Go(func() { m.follow(vm) })
		m.h.work.Go(func() { m.followChanges(vm) })
	case pod == nil || pod.DeletionTimestamp != nil || podutil.IsPodTerminal(pod):
		m.stopped = true
		close(m.up)
	default:
		m.h.work.Go(m.bringUp)
	}
}

// holdImages holds the images of a microVM from an earlier process, unless its virtual machine has ended.
func (m *microVM) holdImages() {
	if s, _ := m.vm.Status(); s.Phase == sandbox.Ended {
		return
	}
	for key, r := range m.record.Images {
		i, err := m.h.images.Hold(r.ID)
		if err != nil { // the guest has the file open, so it exists until the guest ends
			m.h.o.Log.Warn("the image of a running microVM is no longer in the cache", "pod",
				m.record.Namespace+"/"+m.record.Name, "error", err)
			continue
		}
		m.mu.Lock()
		m.images[key] = i
		m.mu.Unlock()
	}
}
