package podspec

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Account is the observed state of a pod's microVM.
type Account struct {
	Pod wire.PodStatus // the guest's report; empty before the first
	// Ended is set when the virtual machine is gone.
	Ended bool
	// Failure is why the pod as a whole could not run, or why the virtual machine ended unasked.
	Failure string
	// ImageIDs are the running images, by container.
	ImageIDs map[string]string
	// Waiting is why a container has not been started, before the guest has reported anything: the reason and message
	// of its state, such as ErrImagePull, by container.
	Waiting map[string]corev1.ContainerStateWaiting
}

// creating is the state of a container before the guest's first report.
var creating = corev1.ContainerStateWaiting{Reason: "ContainerCreating"}

// initializing is the state of a container that waits for the init containers.
var initializing = corev1.ContainerStateWaiting{Reason: "PodInitializing"}

// Status returns a pod's status by an account: phase, container statuses and the conditions that a kubelet writes. The
// caller sets transition times.
func Status(pod *corev1.Pod, a Account) corev1.PodStatus {
	told := map[string]*wire.ContainerStatus{}
	for i := range a.Pod.Containers {
		told[a.Pod.Containers[i].Name] = &a.Pod.Containers[i]
	}
	var out corev1.PodStatus
	otherwise := creating
	if len(pod.Spec.InitContainers) > 0 {
		otherwise = initializing
	}
	for c, kind := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
		list := &out.ContainerStatuses
		if kind == podutil.InitContainers {
			list = &out.InitContainerStatuses
		}
		*list = append(*list, containerStatus(pod, c, told, a, otherwise))
	}
	out.Phase = phase(pod, &out, a)
	if a.Failure != "" && out.Phase == corev1.PodFailed {
		out.Reason, out.Message = "MicroVMFailed", a.Failure
	}
	setConditions(pod, &out, a)
	return out
}

// containerStatus returns the status of one container.
func containerStatus(pod *corev1.Pod, c *corev1.Container, told map[string]*wire.ContainerStatus, a Account,
	otherwise corev1.ContainerStateWaiting,
) corev1.ContainerStatus {
	out := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: a.ImageIDs[c.Name], Started: ptr.To(false)}
	s := told[c.Name]
	if s == nil {
		waiting, known := a.Waiting[c.Name]
		if !known {
			waiting = otherwise
		}
		out.State.Waiting = &waiting
		return out
	}
	out.RestartCount, out.Ready = int32(s.Restarts), s.Ready
	out.Started = ptr.To(s.State == wire.Running && s.StartupDone)
	last, previous := Runs(s)
	if last >= 0 {
		out.ContainerID = containerID(pod, c.Name, last)
	}
	switch s.State {
	case wire.Running:
		out.State.Running = &corev1.ContainerStateRunning{StartedAt: truncated(s.Started)}
	case wire.Terminated:
		out.State.Terminated = terminated(s.Exit)
		out.State.Terminated.ContainerID = out.ContainerID
	default:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: s.Reason, Message: s.Message}
		if s.Reason == "" {
			*out.State.Waiting = otherwise
		}
	}
	if s.LastExit != nil {
		out.LastTerminationState.Terminated = terminated(s.LastExit)
		out.LastTerminationState.Terminated.ContainerID = containerID(pod, c.Name, previous)
	}
	return out
}

// Runs returns the numbers of a container's last run and of the run its last termination describes, counted from 0; -1
// if there was none. While a container waits for its next run, the two are the same.
func Runs(s *wire.ContainerStatus) (last, previous int) {
	switch {
	case s.State == wire.Waiting && s.LastExit == nil:
		return -1, -1
	case s.State == wire.Waiting:
		return s.Restarts, s.Restarts
	case s.LastExit == nil:
		return s.Restarts, -1
	}
	return s.Restarts, s.Restarts - 1
}

// containerID names a run of a container, as a container runtime does.
func containerID(pod *corev1.Pod, name string, run int) string {
	return fmt.Sprintf("nodeless://%s-%s-%d", pod.UID, name, run)
}

func terminated(e *wire.Exit) *corev1.ContainerStateTerminated {
	if e == nil {
		return &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: int32(e.Code), Signal: int32(e.Signal), Reason: e.Reason, Message: e.Message,
		StartedAt: truncated(e.Started), FinishedAt: truncated(e.Finished),
	}
}

// truncated truncates a time as the API does, so that a status is equal when it is read back.
func truncated(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.Truncate(time.Second))
}

// phase follows the containers, as in a kubelet: Pending until the first regular container starts; at the end Failed if
// any container failed or the virtual machine ended unasked, else Succeeded.
func phase(pod *corev1.Pod, s *corev1.PodStatus, a Account) corev1.PodPhase {
	over := a.Ended || a.Pod.Done
	switch {
	case over && (a.Failure != "" || a.Pod.Failure != "" || anyFailed(pod, s)):
		return corev1.PodFailed
	case over:
		return corev1.PodSucceeded
	}
	if anyRan(s) {
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// anyRan reports whether a regular container has ever run: init containers that run again in a new virtual machine do
// not take a pod back to Pending.
func anyRan(s *corev1.PodStatus) bool {
	for i := range s.ContainerStatuses {
		if c := &s.ContainerStatuses[i]; c.State.Running != nil || c.State.Terminated != nil ||
			c.LastTerminationState.Terminated != nil {
			return true
		}
	}
	return false
}

// anyFailed reports whether a container ended with an error, or never ran although it should have. Sidecars do not
// count.
func anyFailed(pod *corev1.Pod, s *corev1.PodStatus) bool {
	for i := range s.ContainerStatuses {
		if t := s.ContainerStatuses[i].State.Terminated; t == nil || t.ExitCode != 0 {
			return true
		}
	}
	for i := range s.InitContainerStatuses {
		if podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) {
			continue
		}
		if t := s.InitContainerStatuses[i].State.Terminated; t == nil || t.ExitCode != 0 {
			return true
		}
	}
	return false
}

// setConditions adds Initialized, ContainersReady, Ready and PodReadyToStartContainers.
func setConditions(pod *corev1.Pod, s *corev1.PodStatus, a Account) {
	ready := len(s.ContainerStatuses) > 0 && s.Phase == corev1.PodRunning
	for i := range s.ContainerStatuses {
		ready = ready && s.ContainerStatuses[i].Ready
	}
	for i := range pod.Spec.InitContainers {
		if podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) {
			ready = ready && s.InitContainerStatuses[i].Ready
		}
	}
	gates := ready
	for _, gate := range pod.Spec.ReadinessGates {
		c := conditions.OfPod(pod, gate.ConditionType)
		gates = gates && c != nil && c.Status == corev1.ConditionTrue
	}
	over := podutil.IsPodPhaseTerminal(s.Phase)
	add := func(t corev1.PodConditionType, yes bool, reason string) {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
		if !yes {
			c.Status, c.Reason = corev1.ConditionFalse, reason
			if over {
				c.Reason = "PodCompleted"
			}
		}
		s.Conditions = append(s.Conditions, c)
	}
	initialized := a.Pod.Initialized || len(pod.Spec.InitContainers) == 0 || s.Phase == corev1.PodSucceeded
	add(corev1.PodInitialized, initialized, "ContainersNotInitialized")
	add(corev1.ContainersReady, ready, "ContainersNotReady")
	notReady := "ContainersNotReady"
	if ready {
		notReady = "ReadinessGatesNotReady"
	}
	add(corev1.PodReady, gates, notReady)
	add(corev1.PodReadyToStartContainers, len(a.Pod.Containers) > 0 && !over, "")
}
