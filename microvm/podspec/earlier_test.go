package podspec

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Containers run again in a new VM as their own rules and policies say, before the pod's: the API server refuses others.
func TestWhatRunsAgainInANewVM(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	again := []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{0},
		},
	}}
	for _, c := range []struct {
		pod, own corev1.RestartPolicy
		rules    []corev1.ContainerRestartRule
		over     string // "-" for exit codes 0, 1 and 137 if the container is over
	}{
		{always, "", nil, "rrr"},
		{onFailure, "", nil, "-rr"},
		{always, never, nil, "---"},
		{onFailure, always, nil, "rrr"},
		{always, onFailure, nil, "-rr"},
		{always, onFailure, again, "rrr"},
		{always, never, again, "r--"},
	} {
		pod := &corev1.Pod{}
		pod.Spec.RestartPolicy = c.pod
		pod.Spec.Containers = []corev1.Container{{Name: "c", RestartPolicyRules: c.rules}}
		if c.own != "" {
			pod.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicy(c.own))
		}
		got := ""
		for _, code := range []int{0, 1, 137} {
			e := Earlier(pod, wire.PodStatus{Containers: []wire.ContainerStatus{{
				Name: "c", State: wire.Terminated, Exit: &wire.Exit{Code: code, Started: time.Unix(1, 0)},
			}}}, time.Unix(2, 0))
			if e["c"].Over {
				got += "-"
			} else {
				got += "r"
			}
		}
		if got != c.over {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// A container that waits for its next run, as by a rule of another one, has it in the new VM.
func TestWhatWaitedRunsInANewVM(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Name: "c", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever)}}
	last := &wire.Exit{Code: 137, Reason: wire.RestartingAll, Started: time.Unix(1, 0)}
	told := wire.PodStatus{Containers: []wire.ContainerStatus{{Name: "c", State: wire.Waiting, LastExit: last}}}
	written := pod.DeepCopy()
	written.Status = Status(pod, Account{Pod: told})
	for _, e := range []map[string]wire.Earlier{
		Earlier(pod, told, time.Unix(2, 0)), Earlier(written, wire.PodStatus{}, time.Unix(2, 0)),
	} {
		if e["c"].Over || e["c"].LastExit == nil {
			t.Errorf("%+v", e["c"])
		}
	}
}

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
		{Name: "always", State: wire.Terminated, Exit: &wire.Exit{Code: 0, Reason: "Completed", Started: then}},
	}}
	for _, c := range told.Containers[1:] {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name})
	}
	pod.Spec.Containers[len(pod.Spec.Containers)-1].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
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
		{Name: "always", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}},
	}
	want := "init 1 runs, 0 Completed; ran 3 runs, 137 ContainerStatusUnknown; waited 4 runs, 5 Error; never 0 runs; " +
		"done 1 runs, 0 Completed, over; always 1 runs, 0 Completed; "
	for name, got := range map[string]map[string]wire.Earlier{
		"account": Earlier(pod, told, then),
		"status":  Earlier(written, wire.PodStatus{}, then),
	} {
		text := ""
		for _, c := range []string{"init", "ran", "waited", "never", "done", "always"} {
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
