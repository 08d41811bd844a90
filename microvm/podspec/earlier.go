package podspec

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/wire"
)

// lostMessage is of a container whose machine ended while nobody saw it.
const lostMessage = "The container could not be located when its microVM was started again"

// Earlier is what has become of a pod's containers in a machine that ended under them, by their names: of those the guest has told of by its account, of
// others by the pod's status. As with kubelet after the restart of a node, init containers run again, and so do all others but those that have done their
// work and are not to be run again after that.
func Earlier(pod *corev1.Pod, told wire.PodStatus, now time.Time) map[string]wire.Earlier {
	out := map[string]wire.Earlier{}
	known := map[string]*wire.ContainerStatus{}
	for i := range told.Containers {
		known[told.Containers[i].Name] = &told.Containers[i]
	}
	for _, list := range []struct {
		statuses []corev1.ContainerStatus
		init     bool
	}{{pod.Status.InitContainerStatuses, true}, {pod.Status.ContainerStatuses, false}} {
		for i := range list.statuses {
			if c := &list.statuses[i]; known[c.Name] == nil {
				out[c.Name] = over(pod, list.init, earlierByStatus(c, now))
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if s := known[pod.Spec.InitContainers[i].Name]; s != nil {
			out[s.Name] = over(pod, true, earlierByAccount(s))
		}
	}
	for i := range pod.Spec.Containers {
		if s := known[pod.Spec.Containers[i].Name]; s != nil {
			out[s.Name] = over(pod, false, earlierByAccount(s))
		}
	}
	return out
}

// over adds whether a container is not run again.
func over(pod *corev1.Pod, init bool, e wire.Earlier) wire.Earlier {
	e.Over = !init && pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && e.LastExit != nil && e.LastExit.Code == 0
	return e
}

// earlierByAccount is by the guest's words, as the host has completed them: what ran or waited when the machine ended has an exit that nobody saw.
func earlierByAccount(s *wire.ContainerStatus) wire.Earlier {
	exit := s.Exit
	if exit != nil && exit.Reason == unknown && exit.Started.IsZero() { // it did not run
		exit = nil
	}
	if exit == nil {
		exit = s.LastExit
	}
	if exit == nil {
		return wire.Earlier{}
	}
	return wire.Earlier{Runs: s.Restarts + 1, LastExit: exit}
}

// unknown is kubelet's reason for the end of a container that nobody saw.
const unknown = "ContainerStatusUnknown"

// earlierByStatus is by what was written to the API server.
func earlierByStatus(c *corev1.ContainerStatus, now time.Time) wire.Earlier {
	var exit *wire.Exit
	switch {
	case c.State.Running != nil:
		exit = &wire.Exit{Code: 137, Reason: unknown, Message: lostMessage, Started: c.State.Running.StartedAt.Time, Finished: now}
	case c.State.Terminated != nil:
		exit = exitOf(c.State.Terminated)
	case c.LastTerminationState.Terminated != nil:
		exit = exitOf(c.LastTerminationState.Terminated)
	default:
		return wire.Earlier{}
	}
	return wire.Earlier{Runs: int(c.RestartCount) + 1, LastExit: exit}
}

func exitOf(t *corev1.ContainerStateTerminated) *wire.Exit {
	return &wire.Exit{
		Code: int(t.ExitCode), Signal: int(t.Signal), Reason: t.Reason, Message: t.Message, Started: t.StartedAt.Time, Finished: t.FinishedAt.Time,
	}
}
