package podspec

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/microvm/wire"
)

// The final states of containers after their VM has ended: as the guest reported them or, failing that, from the
// pod's status.
func TestWhatBecameOfContainersBefore(t *testing.T) {
	then := time.Unix(1_000_000, 0)
	pod := &corev1.Pod{}
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	told := wire.PodStatus{Containers: []wire.ContainerStatus{
		{Name: "init", State: wire.Terminated, Exit: &wire.Exit{Code: 0, Reason: "Completed", Started: then}},
		{Name: "ran", Restarts: 2, State: wire.Terminated, Exit: &wire.Exit{Code: 137, Reason: unknown, Started: then}},
		{
			Name: "waited", Restarts: 3, State: wire.Terminated, Exit: &wire.Exit{Code: 137, Reason: unknown},
			LastExit: &wire.Exit{Code: 5, Reason: "Error", Started: then},
		},
		{Name: "never", State: wire.Terminated, Exit: &wire.Exit{Code: 137, Reason: unknown}},
		{Name: "done", State: wire.Terminated, Exit: &wire.Exit{Code: 0, Reason: "Completed", Started: then}},
	}}
	for _, c := range told.Containers[1:] {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name})
	}
	at := metav1.NewTime(then)
	written := pod.DeepCopy()
	written.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name:  "init",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at}},
	}}
	written.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "ran", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}},
		{
			Name: "waited", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 5,
				Reason:   "Error",
			}},
		},
		{Name: "never", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}},
		{Name: "done", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}},
	}
	want := "init 1 runs, 0 Completed; ran 3 runs, 137 ContainerStatusUnknown; waited 4 runs, 5 Error; never 0 runs; done 1 runs, 0 Completed, over; "
	for name, got := range map[string]map[string]wire.Earlier{
		"account": Earlier(pod, told, then),
		"status":  Earlier(written, wire.PodStatus{}, then),
	} {
		text := ""
		for _, c := range []string{"init", "ran", "waited", "never", "done"} {
			e := got[c]
			text += fmt.Sprintf("%s %d runs", c, e.Runs)
			if e.LastExit != nil {
				text += fmt.Sprintf(", %d %s", e.LastExit.Code, e.LastExit.Reason)
			}
			if e.Over {
				text += ", over"
			}
			text += "; "
		}
		if text != want {
			t.Errorf("by the %s:\n%s, want\n%s", name, text, want)
		}
	}
}
