package podspec

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/microvm/wire"
)

// lostMessage is the message of a container whose virtual machine ended unobserved.
const lostMessage = "The container could not be located when its microVM was started again"

// Earlier returns the history of a pod's containers, by name, in a virtual machine that ended under them: as the
// guest reported it or, for containers that it did not report, from the pod's status. As with a kubelet after a
// restart of its node, init containers run again, and so do all others except those whose rules and policy forbid it.
func Earlier(pod *corev1.Pod, told wire.PodStatus, now time.Time) map[string]wire.Earlier {
	out := map[string]wire.Earlier{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		out[s.Name] = earlierByStatus(&s, now)
	}
	known := map[string]*wire.ContainerStatus{}
	for i := range told.Containers {
		known[told.Containers[i].Name] = &told.Containers[i]
	}
	for c, kind := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
		e := out[c.Name]
		if s := known[c.Name]; s != nil {
			e = earlierByAccount(s)
		}
		e.Over = e.Over && kind == podutil.Containers &&
			!podutil.ContainerShouldRestart(*c, pod.Spec, int32(e.LastExit.Code))
		out[c.Name] = e
	}
	return out
}

// earlierByAccount uses the guest's report, as completed by the host: a container that was running or waiting when
// the virtual machine ended has an exit that was not observed. It is Over unless it was waiting for its next run.
func earlierByAccount(s *wire.ContainerStatus) wire.Earlier {
	exit := s.Exit
	if exit != nil && exit.Reason == unknown && exit.Started.IsZero() { // it did not run
		exit = nil
	}
	over := exit != nil
	if exit == nil {
		exit = s.LastExit
	}
	if exit == nil {
		return wire.Earlier{}
	}
	return wire.Earlier{Runs: s.Restarts + 1, LastExit: exit, Over: over}
}

// unknown is the kubelet's reason for a container's exit that was not observed.
const unknown = "ContainerStatusUnknown"

// earlierByStatus uses the status written to the API server. A container is Over unless it waited for its next run.
func earlierByStatus(c *corev1.ContainerStatus, now time.Time) wire.Earlier {
	var exit *wire.Exit
	switch {
	case c.State.Running != nil:
		exit = &wire.Exit{
			Code: 137, Reason: unknown, Message: lostMessage, Started: c.State.Running.StartedAt.Time, Finished: now,
		}
	case c.State.Terminated != nil:
		exit = exitOf(c.State.Terminated)
	case c.LastTerminationState.Terminated != nil:
		exit = exitOf(c.LastTerminationState.Terminated)
	default:
		return wire.Earlier{}
	}
	over := c.State.Running != nil || c.State.Terminated != nil
	return wire.Earlier{Runs: int(c.RestartCount) + 1, LastExit: exit, Over: over}
}

func exitOf(t *corev1.ContainerStateTerminated) *wire.Exit {
	return &wire.Exit{
		Code: int(t.ExitCode), Signal: int(t.Signal), Reason: t.Reason, Message: t.Message, Started: t.StartedAt.Time,
		Finished: t.FinishedAt.Time,
	}
}
