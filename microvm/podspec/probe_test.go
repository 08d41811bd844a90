package podspec

import (
	"slices"
	"strings"
	"testing"
)

// As in a kubelet, commands of probes know the values of the pod itself, and those of hooks none.
func TestVariablesInProbes(t *testing.T) {
	got, err := translated(t, `
metadata: {name: p, namespace: n}
spec:
  containers:
  - name: c
    env: [{name: A, value: "1"}, {name: B, value: "$(A)2"}, {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    livenessProbe: {exec: {command: [test, $(A), $$(A), "$(B)", "<$(NAME)>", $(NONE)]}}
    lifecycle: {preStop: {exec: {command: [echo, $(A)]}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	c := got.Containers[0]
	if want := []string{"test", "1", "$(A)", "$(A)2", "<>", "$(NONE)"}; !slices.Equal(c.LivenessProbe.Action.Exec, want) {
		t.Errorf("%q, want %q", c.LivenessProbe.Action.Exec, want)
	}
	if want := []string{"echo", "$(A)"}; !slices.Equal(c.PreStop.Exec, want) {
		t.Errorf("%q, want %q", c.PreStop.Exec, want)
	}
}

// A port that has no number is an error of the probe or hook when it is performed, and not of its container.
func TestAPortThatHasNoNumber(t *testing.T) {
	got, err := translated(t, `
metadata: {name: p, namespace: n}
spec:
  containers:
  - name: c
    ports: [{name: http, containerPort: 80}]
    livenessProbe: {tcpSocket: {port: web}}
    readinessProbe: {httpGet: {port: http}}
    lifecycle: {preStop: {httpGet: {port: web}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	c := got.Containers[0]
	if c.Held != nil || c.ReadinessProbe.Action.Invalid != "" || c.ReadinessProbe.Action.HTTP.Port != 80 {
		t.Errorf("%+v, %+v", c.Held, c.ReadinessProbe.Action)
	}
	for _, why := range []string{c.LivenessProbe.Action.Invalid, c.PreStop.Invalid} {
		if !strings.HasPrefix(why, `port "web" is none of the container's`) {
			t.Errorf("%q", why)
		}
	}
}
