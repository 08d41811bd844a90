package host

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// A pod whose guest could not prepare it has not run: it gets another one even if it must not be restarted.
func TestWhichPodsGetAnotherVirtualMachine(t *testing.T) {
	lost := sandbox.Status{Phase: sandbox.Ended, Failure: "the virtual machine ended"}
	finished := sandbox.Status{Phase: sandbox.Ended, Pod: wire.PodStatus{Done: true}}
	unprepared := sandbox.Status{
		Phase: sandbox.Ended, Failure: "set sysctl", Pod: wire.PodStatus{Done: true, Failure: "set sysctl"},
	}
	ending := unprepared
	ending.Phase = sandbox.Running
	for _, c := range []struct {
		policy  corev1.RestartPolicy
		phase   corev1.PodPhase
		deleted bool
		s       sandbox.Status
		want    bool
	}{
		{corev1.RestartPolicyAlways, corev1.PodRunning, false, lost, true},
		{corev1.RestartPolicyNever, corev1.PodRunning, false, lost, false},
		{corev1.RestartPolicyAlways, corev1.PodRunning, false, finished, false},
		{corev1.RestartPolicyAlways, corev1.PodPending, false, unprepared, true},
		{corev1.RestartPolicyNever, corev1.PodPending, false, unprepared, true},
		{corev1.RestartPolicyNever, corev1.PodPending, false, ending, true},
		{corev1.RestartPolicyNever, corev1.PodFailed, false, unprepared, false},
		{corev1.RestartPolicyAlways, corev1.PodPending, true, unprepared, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.policy}, Status: corev1.PodStatus{Phase: c.phase}}
		if c.deleted {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		if got := shouldRestart(pod, c.s); got != c.want {
			t.Errorf("%s, %s, deleted %t, %+v: %t", c.policy, c.phase, c.deleted, c.s, got)
		}
	}
}

// The restarts of a pod's containers are neither forgotten nor counted twice if its next guest could not prepare it,
// whether or not another host process has started since.
func TestRestartsAreCountedOnce(t *testing.T) {
	exit := &wire.Exit{Code: 1, Reason: "Error", Started: time.Unix(1, 0), Finished: time.Unix(2, 0)}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "ran"}, {Name: "new"}},
	}}
	unobserved := &wire.Exit{Code: 137, Reason: "ContainerStatusUnknown", Message: "set sysctl"}
	unprepared := sandbox.Status{
		Phase: sandbox.Ended, Failure: "set sysctl", Pod: wire.PodStatus{
			Done: true, Failure: "set sysctl", Containers: []wire.ContainerStatus{
				{Name: "ran", State: wire.Terminated, Exit: unobserved, LastExit: exit, Restarts: 2},
				{Name: "new", State: wire.Waiting},
			},
		},
	}
	known := map[string]wire.Earlier{"ran": {Runs: 3, LastExit: exit}, "new": {}}
	silent := sandbox.Status{Phase: sandbox.Ended, Failure: "the virtual machine ended"}
	for what, c := range map[string]struct {
		earlier map[string]wire.Earlier
		s       sandbox.Status
	}{
		"unprepared": {known, unprepared}, "unprepared, another process": {nil, unprepared},
		"never reported anything": {known, silent},
	} {
		m := &microVM{earlier: c.earlier}
		for range 2 { // the next one fails, too
			m.earlier = m.history(pod, c.s)
		}
		if got := m.earlier["ran"]; got != known["ran"] || m.earlier["new"].Runs != 0 {
			t.Errorf("%s: %+v", what, m.earlier)
		}
	}
}

// Until the guest of an earlier host process reports its containers, they stay as they are.
func TestAnAdoptedGuestIsHeardFirst(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: true, RestartCount: 3}}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, "gate"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue})
	}
	m := &microVM{h: &Host{}, vm: &sandbox.VM{}}
	got := m.status(pod).Pod
	if got.Phase != corev1.PodRunning || got.ContainerStatuses[0].RestartCount != 3 {
		t.Errorf("%+v", got)
	}
	for _, c := range got.Conditions { // those of gates and of the scheduler are not the host's
		if c.Type == corev1.PodScheduled || c.Type == "gate" || c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			t.Errorf("%+v", c)
		}
	}
	m.began = time.Now()
	if got := m.status(pod).Pod; got.Phase != corev1.PodPending {
		t.Errorf("a guest of this process: %+v", got)
	}
}
