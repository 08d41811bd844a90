package podspec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/microvm/wire"
)

// A container's rules and its own policy reach the guest, which decides.
func TestRestartRules(t *testing.T) {
	got, err := translated(t, `
spec:
  restartPolicy: Never
  initContainers: [{name: side, restartPolicy: Always}]
  containers:
  - name: main
    restartPolicy: OnFailure
    restartPolicyRules:
    - {action: Restart, exitCodes: {operator: In, values: [0, 3]}}
    - {action: RestartAllContainers, exitCodes: {operator: NotIn, values: [7]}}
  - name: other
`)
	if err != nil {
		t.Fatal(err)
	}
	side, main, other := got.Containers[0], got.Containers[1], got.Containers[2]
	rules := []wire.RestartRule{{Codes: []int{0, 3}}, {Codes: []int{7}, Except: true, All: true}}
	if main.RestartPolicy != wire.RestartOnFailure || !reflect.DeepEqual(main.RestartRules, rules) ||
		side.Kind != wire.KindSidecar || other.RestartPolicy != "" || got.RestartPolicy != wire.RestartNever {
		t.Errorf("%+v", got.Containers)
	}
}

// While all containers wait to run again the pod says so and keeps running, whatever its policy.
func TestAPodRestartsAllContainers(t *testing.T) {
	pod := read(t, `
metadata: {name: p, namespace: n}
spec:
  restartPolicy: Never
  containers:
  - name: c
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
`)
	now := wire.ContainerStatus{Name: "c", State: wire.Waiting, Reason: wire.RestartingAll, LastExit: &wire.Exit{Code: 42}}
	for state, want := range map[wire.State]corev1.ConditionStatus{
		wire.Waiting: corev1.ConditionTrue, wire.Running: corev1.ConditionFalse,
	} {
		now.State = state
		got := Status(pod, Account{Pod: wire.PodStatus{Initialized: true, Containers: []wire.ContainerStatus{now}}})
		pod.Status = got
		if c := conditions.OfPod(pod, corev1.AllContainersRestarting); got.Phase != corev1.PodRunning || c == nil ||
			c.Status != want {
			t.Errorf("%s: phase %s, %+v", state, got.Phase, c)
		}
	}
}
