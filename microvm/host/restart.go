package host

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// longLife is how long a machine has to have run for its end to be the first one again, as with a kubelet's containers.
const longLife = 10 * time.Minute

// shouldRestart says whether a pod outlives the end of its machine: it is run again in a new one, as a kubelet runs a pod again after the restart of its node,
// unless its containers are never to be run again, or it is over.
func shouldRestart(pod *corev1.Pod, s sandbox.Status) bool {
	return s.Phase == sandbox.Ended && s.Failure != "" && !s.Pod.Done && pod != nil && pod.DeletionTimestamp == nil && pod.Spec.RestartPolicy != corev1.RestartPolicyNever &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// again starts a pod whose machine ended under it in a new one; false if it is not to be. Machines that end soon are started later each time.
func (m *microVM) restart(s sandbox.Status) bool {
	pod := m.h.podOf(m.record.UID)
	m.mu.Lock()
	if m.stopped || m.removing || !shouldRestart(pod, s) {
		m.mu.Unlock()
		return false
	}
	m.earlier = podspec.Earlier(pod, s.Pod, time.Now())
	m.up = make(chan struct{})
	if time.Since(m.began) > longLife {
		m.restarts = 0
	}
	m.restarts++
	wait := m.h.o.Pauses.restartDelay(m.restarts)
	m.mu.Unlock()
	m.endRoute()
	m.release()
	m.h.event(pod, "", corev1.EventTypeWarning, "MicroVMRestarted", "The microVM has ended; the pod's containers are started again in a new one")
	if wait > 0 {
		m.setWaiting(pod, "", corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s starting a new microVM for the pod: %s", wait, s.Failure)})
		pause(m.ctx, wait)
	}
	m.bringUp()
	return true
}

// restartDelay is the pause before a new machine is started after so many that ended soon: none after the first, then doubled each time.
func (p Pauses) restartDelay(n int) time.Duration {
	if n < 2 {
		return 0
	}
	return time.Duration(min(float64(p.MaxPull), float64(p.FirstPull)*math.Exp2(float64(n-2))))
}

// account is what is known of the pod, which is nil if nobody knows it any more. Between two machines it is what became of the containers in the first one, and
// why they wait.
func (m *microVM) account(pod *corev1.Pod) podspec.Account {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := podspec.Account{Waiting: m.waiting, ImageIDs: map[string]string{}}
	for name, i := range m.record.Images {
		a.ImageIDs[name] = i.Digest
	}
	if m.vm == nil {
		if m.stopped {
			select {
			case <-m.up: // and nobody will bring it up any more
				a.Ended = true
			default:
			}
		}
		if !a.Ended && m.earlier != nil {
			a.Pod = m.between(m.earlier, pod)
		}
		return a
	}
	s, _ := m.vm.Status()
	switch {
	case !m.stopped && shouldRestart(pod, s):
		a.Pod = m.between(podspec.Earlier(pod, s.Pod, time.Now()), pod)
	case s.Phase != sandbox.Ended && len(s.Pod.Containers) == 0 && m.earlier != nil:
		a.Pod = m.between(m.earlier, pod)
	default:
		a.Pod, a.Ended, a.Failure = s.Pod, s.Phase == sandbox.Ended, s.Failure
	}
	return a
}

// between is the status of containers that wait for their new machine. m.mu is held.
func (m *microVM) between(earlier map[string]wire.Earlier, pod *corev1.Pod) (out wire.PodStatus) {
	if pod == nil {
		return out
	}
	eachContainer(pod, func(c *corev1.Container, _ string) bool {
		e, ok := earlier[c.Name]
		if !ok || e.Runs == 0 {
			return true // of which there is nothing to tell
		}
		s := e.Status(c.Name)
		if s.State == wire.Waiting {
			s.Reason, s.Message = "ContainerCreating", ""
			if why, ok := m.waiting[c.Name]; ok {
				s.Reason, s.Message = why.Reason, why.Message
			}
		}
		out.Containers = append(out.Containers, s)
		return true
	})
	return out
}
