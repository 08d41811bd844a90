package podspec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	// Failure is why the pod as a whole could not run, or why the virtual machine ended unexpectedly.
	Failure string
	// ImageIDs are the running images, by container.
	ImageIDs map[string]string
	// Waiting is why containers have not been started, until the guest reports them.
	Waiting Waiting
	// Resources are the resources that containers have been given, by container; those not listed have what the pod
	// specifies.
	Resources map[string]corev1.ResourceRequirements
	// Infeasible is why containers cannot get the resources that the pod specifies now; "" if they can.
	Infeasible string
	// ResizeError is why the last attempt to resize them failed; "" if it did not.
	ResizeError string
}

// Waiting is why containers have not been started: the reason and message of their state, such as ErrImagePull, by
// container. That of "" is the reason of those without one of their own.
type Waiting map[string]corev1.ContainerStateWaiting

// Of returns why a container waits; found is false if that is unknown.
func (w Waiting) Of(container string) (why corev1.ContainerStateWaiting, found bool) {
	if why, found = w[container]; !found {
		why, found = w[""]
	}
	return why, found
}

// given returns the resources that a container has been given.
func (a Account) given(c *corev1.Container) corev1.ResourceRequirements {
	if has, ok := a.Resources[c.Name]; ok {
		return has
	}
	return c.Resources
}

// creating is the state of a container before the guest's first report.
var creating = corev1.ContainerStateWaiting{Reason: "ContainerCreating"}

// initializing is the state of a container that waits for the init containers.
var initializing = corev1.ContainerStateWaiting{Reason: "PodInitializing"}

// Status returns a pod's status according to an account: phase, container statuses and the conditions that a kubelet
// writes. The caller sets transition times.
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
		s := containerStatus(pod, c, told, a, otherwise)
		if told[c.Name] != nil {
			given, allocated := a.given(c), c.Resources
			if a.Infeasible != "" {
				allocated = given
			}
			s.Resources, s.AllocatedResources = &given, allocated.Requests
		}
		*list = append(*list, s)
	}
	for i := range pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		s := containerStatus(pod, c, told, a, creating)
		if earlier, began := earlierEphemeral(pod, c.Name, a); told[c.Name] == nil && began {
			s = earlier
		}
		out.EphemeralContainerStatuses = append(out.EphemeralContainerStatuses, s)
	}
	out.Phase = phase(pod, &out, a)
	if a.Failure != "" && out.Phase == corev1.PodFailed {
		out.Reason, out.Message = "MicroVMFailed", a.Failure
	}
	setConditions(pod, &out, a)
	out.ObservedGeneration = pod.Generation
	return out
}

// containerStatus returns the status of one container.
func containerStatus(pod *corev1.Pod, c *corev1.Container, told map[string]*wire.ContainerStatus, a Account,
	otherwise corev1.ContainerStateWaiting,
) corev1.ContainerStatus {
	out := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: a.ImageIDs[c.Name], Started: ptr.To(false)}
	out.VolumeMounts = mounted(c)
	s := told[c.Name]
	if s == nil {
		waiting, known := a.Waiting.Of(c.Name)
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
		out.ContainerID, out.User = containerID(pod, c.Name, last), userOf(s)
	}
	switch s.State {
	case wire.Running:
		out.State.Running = &corev1.ContainerStateRunning{StartedAt: truncated(s.Started)}
	case wire.Terminated:
		out.State.Terminated = terminated(pod, s.Exit)
		out.State.Terminated.ContainerID = out.ContainerID
	default:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: s.Reason, Message: s.Message}
		if s.Reason == "" {
			*out.State.Waiting = otherwise
		}
	}
	if s.LastExit != nil {
		out.LastTerminationState.Terminated = terminated(pod, s.LastExit)
		out.LastTerminationState.Terminated.ContainerID = containerID(pod, c.Name, previous)
	}
	return out
}

// earlierEphemeral returns the status of an ephemeral container from the pod's own status, since a guest does not
// know those of the pod's earlier virtual machines. began is false if the container has never run.
func earlierEphemeral(pod *corev1.Pod, name string, a Account) (s corev1.ContainerStatus, began bool) {
	s, found := podutil.GetContainerStatus(pod.Status.EphemeralContainerStatuses, name)
	if !found || s.ContainerID == "" {
		return s, false
	}
	if s.State.Running != nil && (a.Ended || len(a.Pod.Containers) > 0) {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: unknown, Message: lostMessage, StartedAt: s.State.Running.StartedAt,
			ContainerID: s.ContainerID,
		}}
	}
	return s, true
}

// Runs returns the numbers of a container's last run and of the run that its last termination describes, counted from
// 0; -1 if there was none. While a container waits for its next run, the two are the same.
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

// maxMessages bounds the bytes of all containers' termination messages together; each container gets an equal part, as
// with a kubelet (normalizeStatus in pkg/kubelet/status, Kubernetes 1.36).
const maxMessages = 12 << 10

func terminated(pod *corev1.Pod, e *wire.Exit) *corev1.ContainerStateTerminated {
	if e == nil {
		return &corev1.ContainerStateTerminated{ExitCode: 137, Reason: unknown}
	}
	message := e.Message
	all := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	if most := maxMessages / all; len(message) > most {
		message = strings.ToValidUTF8(message[:most], "")
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: int32(e.Code), Signal: int32(e.Signal), Reason: e.Reason, Message: message,
		StartedAt: truncated(e.Started), FinishedAt: truncated(e.Finished),
	}
}

// truncated truncates a time as the API does, so that a status compares equal when it is read back.
func truncated(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.Truncate(time.Second))
}

// phase follows the containers, as in a kubelet: Pending until each regular container has been started; at the end
// Failed if any container failed or the virtual machine ended unexpectedly, else Succeeded.
func phase(pod *corev1.Pod, s *corev1.PodStatus, a Account) corev1.PodPhase {
	over := a.Ended || a.Pod.Done
	switch {
	case over && (a.Failure != "" || a.Pod.Failure != "" || anyFailed(pod, s)):
		return corev1.PodFailed
	case over:
		return corev1.PodSucceeded
	}
	// A container that waits to run again does not return the pod to Pending, nor do init containers in a new virtual
	// machine.
	neverRan := func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && c.LastTerminationState.Terminated == nil
	}
	if slices.ContainsFunc(s.ContainerStatuses, neverRan) {
		return corev1.PodPending
	}
	return corev1.PodRunning
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

// setConditions adds the conditions that a kubelet writes, in its words (pkg/kubelet/status, Kubernetes 1.36).
func setConditions(pod *corev1.Pod, s *corev1.PodStatus, a Account) {
	over := ""
	switch s.Phase {
	case corev1.PodSucceeded:
		over = "PodCompleted"
	case corev1.PodFailed:
		over = "PodFailed"
	}
	add := func(t corev1.PodConditionType, yes bool, reason, message string) {
		c := corev1.PodCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: pod.Generation,
		}
		if yes {
			c.Status = corev1.ConditionTrue
		}
		s.Conditions = append(s.Conditions, c)
	}
	incomplete, unready := unfinished(pod, s)
	switch {
	case a.Pod.Initialized || len(pod.Spec.InitContainers) == 0:
		add(corev1.PodInitialized, true, "", "")
	case s.Phase == corev1.PodSucceeded:
		add(corev1.PodInitialized, true, over, "")
	default:
		add(corev1.PodInitialized, false, "ContainersNotInitialized",
			fmt.Sprintf("containers with incomplete status: %s", incomplete))
	}
	closed := ClosedGates(pod)
	switch {
	case over != "":
		add(corev1.ContainersReady, false, over, "")
		add(corev1.PodReady, false, over, "")
	case len(unready) > 0:
		message := fmt.Sprintf("containers with unready status: %s", unready)
		add(corev1.ContainersReady, false, "ContainersNotReady", message)
		add(corev1.PodReady, false, "ContainersNotReady", message)
	case len(closed) > 0:
		add(corev1.ContainersReady, true, "", "")
		add(corev1.PodReady, false, "ReadinessGatesNotReady", strings.Join(closed, ", "))
	default:
		add(corev1.ContainersReady, true, "", "")
		add(corev1.PodReady, true, "", "")
	}
	add(corev1.PodReadyToStartContainers, len(a.Pod.Containers) > 0 && over == "", "", "")
	if podutil.AllContainersCouldRestart(&pod.Spec) {
		c := isRestarting(a, over)
		add(c.Type, c.Status == corev1.ConditionTrue, c.Reason, c.Message)
	}
	switch {
	case over != "":
	case a.Infeasible != "":
		add(corev1.PodResizePending, true, corev1.PodReasonInfeasible, a.Infeasible)
	case a.ResizeError != "":
		add(corev1.PodResizeInProgress, true, corev1.PodReasonError, a.ResizeError)
	case len(Resized(pod, a.Resources)) > 0:
		add(corev1.PodResizeInProgress, true, "", "")
	}
}

// unfinished returns the init containers that prevent the pod from being initialized, and the containers that prevent
// it from being ready.
func unfinished(pod *corev1.Pod, s *corev1.PodStatus) (incomplete, unready []string) {
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		done := c.Ready
		if podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) {
			done = ptr.Deref(c.Started, false)
			if !c.Ready {
				unready = append(unready, c.Name)
			}
		}
		if !done {
			incomplete = append(incomplete, c.Name)
		}
	}
	for i := range s.ContainerStatuses {
		if c := &s.ContainerStatuses[i]; !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	return incomplete, unready
}

// ClosedGates returns the reason of each readiness gate that prevents the pod from being ready.
func ClosedGates(pod *corev1.Pod) (closed []string) {
	for _, gate := range pod.Spec.ReadinessGates {
		switch c := conditions.OfPod(pod, gate.ConditionType); {
		case c == nil:
			closed = append(closed,
				fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			closed = append(closed,
				fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	return closed
}

// Resized returns the containers whose resources differ from those they have been given.
func Resized(pod *corev1.Pod, given map[string]corev1.ResourceRequirements) (out []*corev1.Container) {
	for c := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
		if has, ok := given[c.Name]; ok && !equality.Semantic.DeepEqual(has, c.Resources) {
			out = append(out, c)
		}
	}
	return out
}
