package host

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/microvm/logs"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// resetAfter is the run time of a virtual machine after which the restart back-off is reset, as with a kubelet's
// containers.
const resetAfter = 10 * time.Minute

// unprepared reports whether a guest could not prepare its pod, so that no container ran.
func unprepared(s sandbox.Status) bool { return s.Pod.Done && s.Pod.Failure != "" }

// shouldRestart reports whether a pod whose virtual machine has failed runs again in a new one. It does, like a pod
// whose node restarts, unless its restartPolicy is Never or the pod is finished or being deleted. A pod that could not
// be prepared is tried again whatever its restartPolicy, as a kubelet does with sandboxes and volumes.
func shouldRestart(pod *corev1.Pod, s sandbox.Status) bool {
	if pod == nil || pod.DeletionTimestamp != nil || podutil.IsPodTerminal(pod) {
		return false
	}
	return unprepared(s) || s.Phase == sandbox.Ended && s.Failure != "" && !s.Pod.Done &&
		pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// history returns how the pod's containers ended in its virtual machines, the last of which has this status: as its
// guest reported, which got their earlier history, else as was known before it began. m.mu is held.
func (m *microVM) history(pod *corev1.Pod, s sandbox.Status) map[string]wire.Earlier {
	out := podspec.Earlier(pod, s.Pod, time.Now())
	for name, e := range m.earlier {
		if containerOf(s.Pod, name) == nil {
			out[name] = e
		}
	}
	return out
}

// restart runs a pod whose virtual machine has failed in a new one, after a back-off. It returns false if the pod
// must not run again.
func (m *microVM) restart(s sandbox.Status) bool {
	pod := m.h.podOf(m.record.UID)
	m.mu.Lock()
	if m.stopped || m.removing || !shouldRestart(pod, s) {
		m.mu.Unlock()
		return false
	}
	m.earlier = m.history(pod, s)
	m.up = make(chan struct{})
	if time.Since(m.began) > resetAfter {
		m.restarts = 0
	}
	m.restarts++
	wait := m.h.o.Pauses.restartDelay(m.restarts)
	m.mu.Unlock()
	m.endRoute((*logs.Route).Pause)
	m.release()
	m.h.o.Log.Warn("a microVM has ended; its pod gets a new one", "pod", pod.Namespace+"/"+pod.Name, "error", s.Failure)
	reason, message := "MicroVMRestarted", "The microVM has ended; the pod's containers are started again in a new one"
	waiting := corev1.ContainerStateWaiting{
		Reason:  "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %s starting a new microVM for the pod: %s", wait, s.Failure),
	}
	if unprepared(s) {
		wait = max(wait, m.h.o.Pauses.FirstPull)
		reason, message = "FailedCreatePodSandBox", "Failed to prepare the pod in its microVM: "+s.Failure
		waiting = corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: s.Failure}
	}
	m.h.event(pod, "", corev1.EventTypeWarning, reason, message)
	if wait > 0 {
		m.setWaiting("", waiting)
		pause(m.ctx, wait)
	}
	m.bringUp()
	return true
}

// restartDelay returns the pause before a restart, given the number of consecutive short-lived virtual machines: none
// after the first, then doubled each time.
func (p Pauses) restartDelay(n int) time.Duration {
	if n < 2 {
		return 0
	}
	return time.Duration(min(float64(p.MaxPull), float64(p.FirstPull)*math.Exp2(float64(n-2))))
}

// observe returns the state of the pod's microVM. The pod is nil if the API server no longer has it. Between two
// virtual machines, the state says how the containers ended in the first one, and why they are waiting.
func (m *microVM) observe(pod *corev1.Pod) podspec.Account {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := podspec.Account{
		Waiting: m.waiting, ImageIDs: map[string]string{}, Resources: m.record.Resources, ResizeError: m.resizeError,
	}
	if pod != nil && len(podspec.Resized(pod, a.Resources)) > 0 {
		a.Infeasible = m.infeasible(pod)
	}
	for name, i := range m.record.Images {
		a.ImageIDs[name] = i.Digest
	}
	if m.vm == nil {
		if m.stopped {
			select {
			case <-m.up: // and bringUp has ended
				a.Ended = true
			default:
			}
		}
		if !a.Ended && m.earlier != nil {
			a.Pod = m.waitingStatus(m.earlier, pod)
		}
		return a
	}
	s, _ := m.vm.Status()
	switch {
	case !m.stopped && shouldRestart(pod, s):
		a.Pod = m.waitingStatus(m.history(pod, s), pod)
	case s.Phase != sandbox.Ended && len(s.Pod.Containers) == 0 && m.earlier != nil:
		a.Pod = m.waitingStatus(m.earlier, pod)
	default:
		a.Pod, a.Ended, a.Failure = s.Pod, s.Phase == sandbox.Ended, s.Failure
	}
	return a
}

// waitingStatus returns the status of containers that wait for their new virtual machine. m.mu is held.
func (m *microVM) waitingStatus(earlier map[string]wire.Earlier, pod *corev1.Pod) (out wire.PodStatus) {
	if pod == nil {
		return out
	}
	for c := range containers(pod) {
		e, ok := earlier[c.Name]
		if !ok || e.Runs == 0 {
			continue // it has not run yet
		}
		s := e.Status(c.Name)
		if s.State == wire.Waiting {
			s.Reason, s.Message = "ContainerCreating", ""
			if why, ok := m.waiting.Of(c.Name); ok {
				s.Reason, s.Message = why.Reason, why.Message
			}
		}
		out.Containers = append(out.Containers, s)
	}
	return out
}
