package podspec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/wire"
)

// As with a kubelet, a token belongs to the user that all containers run as, and only it or the fsGroup reads it.
func TestATokenIsItsUsers(t *testing.T) {
	for _, c := range []struct{ pod, containers, want string }{
		{"{}", "{name: c}", "644 of <nil>"},
		{"{runAsUser: 1000}", "{name: c}", "600 of 1000"},
		{"{fsGroup: 2000}", "{name: c}", "600 of <nil>"},
		{"{runAsUser: 1000}", "{name: c}, {name: d, securityContext: {runAsUser: 7}}", "644 of <nil>"},
		{"{}", "{name: c, securityContext: {runAsUser: 7}}, {name: d}", "644 of <nil>"},
	} {
		got, err := translated(t, `
metadata: {name: p, namespace: n}
spec:
  securityContext: `+c.pod+`
  containers: [`+c.containers+`]
  volumes: [{name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}]
`)
		if err != nil {
			t.Fatal(err)
		}
		f := got.Volumes[0].Files[0]
		user := "<nil>"
		if f.UID != nil {
			user = fmt.Sprint(*f.UID)
		}
		if have := fmt.Sprintf("%o of %s", f.Mode, user); have != c.want {
			t.Errorf("%s, %s: %s, want %s", c.pod, c.containers, have, c.want)
		}
	}
}

// Read-only mounts may include what is mounted below. The status says how each volume is mounted, and who runs.
func TestMountsAndUsersAreTold(t *testing.T) {
	const text = `
metadata: {name: p, namespace: n, uid: u}
spec:
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    volumeMounts:
    - {name: v, mountPath: /a}
    - {name: v, mountPath: /b, readOnly: true, recursiveReadOnly: Disabled}
    - {name: v, mountPath: /c, readOnly: true, recursiveReadOnly: IfPossible}
`
	got, err := translated(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if m := got.Containers[0].Mounts; m[0].Recursive || m[1].Recursive || !m[2].Recursive || !m[2].ReadOnly {
		t.Errorf("%+v", m)
	}
	s := Status(read(t, text), Account{Pod: wire.PodStatus{Containers: []wire.ContainerStatus{{
		Name: "c", State: wire.Running, User: &wire.User{UID: 1, GID: 2, Groups: []int64{2, 3}},
	}}}}).ContainerStatuses[0]
	mounts := []corev1.VolumeMountStatus{
		{Name: "v", MountPath: "/a"},
		{Name: "v", MountPath: "/b", ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyDisabled)},
		{Name: "v", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyEnabled)},
	}
	user := &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1, GID: 2, SupplementalGroups: []int64{2, 3}}}
	if !reflect.DeepEqual(s.VolumeMounts, mounts) || !reflect.DeepEqual(s.User, user) {
		t.Errorf("%+v, %+v", s.VolumeMounts, s.User)
	}
}

// The API server refuses a status with other IDs. A process can take any that its kernel knows.
func TestUsersThatTheAPIRefusesAreNotTold(t *testing.T) {
	for _, u := range []wire.User{
		{UID: -1}, {UID: 3e9}, {GID: -1}, {GID: 3e9}, {Groups: []int64{1, -1}}, {Groups: []int64{3e9}},
	} {
		s := Status(read(t, "spec: {containers: [{name: c}]}"), Account{Pod: wire.PodStatus{
			Containers: []wire.ContainerStatus{{Name: "c", State: wire.Running, User: &u}},
		}})
		if s.ContainerStatuses[0].State.Running == nil || s.ContainerStatuses[0].User != nil {
			t.Errorf("%+v: %+v", u, s.ContainerStatuses[0])
		}
	}
}

// A container without limits of its own is told those of its pod.
func TestLimitsOfThePodAreTold(t *testing.T) {
	got, err := translated(t, `
metadata: {name: p, namespace: n}
spec:
  resources: {limits: {memory: 64Mi}}
  containers:
  - name: c
    env:
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
  - {name: own, resources: {limits: {memory: 8Mi, cpu: 100m}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if have := strings.Join(got.Containers[0].Env, " "); !strings.HasSuffix(have, "MEMORY=67108864 CPU=1500") {
		t.Errorf("%s", have)
	}
	if got.Limits != (wire.Limits{MemoryBytes: 64 << 20}) {
		t.Errorf("the pod: %+v", got.Limits)
	}
	if l := got.Containers[0].Limits; l.MemoryBytes != 64<<20 || l.CPUMilli != 0 {
		t.Errorf("a container without limits: %+v", l)
	}
	if l := got.Containers[1].Limits; l.MemoryBytes != 8<<20 || l.CPUMilli != 100 {
		t.Errorf("a container with limits: %+v", l)
	}
	pod := read(t, "spec: {resources: {limits: {cpu: 500m}}, containers: [{name: c}]}")
	if l := Limits(pod, &pod.Spec.Containers[0], 1<<30); l.CPUMilli != 500 || l.MemoryBytes != 0 {
		t.Errorf("a pod with a limit of CPU: %+v", l)
	}
}

// The guest reads values from files of volumes, wherever they are used. Without an optional one, what was there before
// stays: another variable, that of a Service, the image's.
func TestVariablesFromFiles(t *testing.T) {
	got, err := translated(t, `
metadata: {name: p, namespace: n}
spec:
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    command: [echo, "$(A)-$(B)"]
    envFrom: [{configMapRef: {name: settings}}]
    env:
    - {name: A, valueFrom: {fileKeyRef: {volumeName: v, path: env, key: X}}}
    - {name: B, value: "of $(A)"}
    - {name: C, valueFrom: {fileKeyRef: &optional {volumeName: v, path: other/env, key: C, optional: true}}}
    - {name: A, valueFrom: {fileKeyRef: *optional}}
    - {name: SIZE, valueFrom: {fileKeyRef: *optional}}
    - {name: KUBERNETES_SERVICE_HOST, valueFrom: {fileKeyRef: *optional}}
    - {name: PATH, valueFrom: {fileKeyRef: *optional}}
    - {name: COLOUR, valueFrom: {fileKeyRef: *optional}}
    - {name: COLOUR, value: "not $(COLOUR)"}
`)
	if err != nil {
		t.Fatal(err)
	}
	c := got.Containers[0]
	files := []wire.EnvFile{
		{Name: "A", Mark: "\x000.", Volume: "v", Path: "env", Key: "X"},
		{Name: "C", Otherwise: "$(C)"},
		{Name: "A", Otherwise: "\x000."},
		{Name: "SIZE", Otherwise: "12"},
		{Name: "KUBERNETES_SERVICE_HOST", Otherwise: "10.96.0.1"},
		{Name: "PATH", Otherwise: "$(PATH)"},
		{Otherwise: "blue"},
	}
	files[0].Otherwise = "$(A)"
	for i := range files[1:] {
		f := &files[1+i]
		f.Mark, f.Volume, f.Path, f.Key, f.Optional = fmt.Sprintf("\x00%d.", 1+i), "v", "other/env", "C", true
	}
	env := strings.Join(c.Env, " ")
	if !reflect.DeepEqual(c.EnvFiles, files) || c.Args[1] != "\x002.-of \x000." ||
		env != "PATH=/bin HOSTNAME=p KUBERNETES_SERVICE_HOST=10.96.0.1 COLOUR=not \x006. SIZE=12 B=of \x000." {
		t.Errorf("%+v, %q, %q", c.EnvFiles, c.Args, env)
	}
}

// The host needs the path before the guest has read the file.
func TestASubPathFromAFileIsRefused(t *testing.T) {
	err := refused(t, `
spec:
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: env, key: A}}}]
    volumeMounts: [{name: v, mountPath: /v, subPathExpr: "of/$(A)"}]
`)
	const says = `mount /v: its subPathExpr "of/$(A)" has a value from a file (fileKeyRef), which microVMs do not support`
	if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, ErrCreate) {
		t.Error(err)
	}
}

func TestHostNamesAreCut(t *testing.T) {
	pod := &corev1.Pod{}
	for name, want := range map[string]string{
		"short":                          "short",
		strings.Repeat("a", 70):          strings.Repeat("a", 63),
		strings.Repeat("a", 61) + "-.-b": strings.Repeat("a", 61),
	} {
		pod.Spec.HostnameOverride, pod.Name = nil, name
		byName := hostname(pod)
		pod.Spec.HostnameOverride, pod.Name = &name, "other"
		if got := hostname(pod); got != want || byName != want {
			t.Errorf("%s and %s, want %s", byName, got, want)
		}
	}
}

// As with a kubelet, the containers of a pod share the limit of their termination messages.
func TestTerminationMessagesShareALimit(t *testing.T) {
	e := &wire.Exit{Code: 1, Message: strings.Repeat("\u00e9", 2048)} // of two bytes each
	for text, want := range map[string]int{
		"spec: {containers: [{name: a}]}": 4096,
		"spec: {initContainers: [{name: a}], containers: [{name: b}, {name: c}, {name: d}, {name: e}]}": 2456,
	} {
		p := read(t, text)
		s := wire.ContainerStatus{Name: "a", State: wire.Terminated, Exit: e, LastExit: e}
		got := Status(p, Account{Pod: wire.PodStatus{Containers: []wire.ContainerStatus{s}}})
		c := slices.Concat(got.InitContainerStatuses, got.ContainerStatuses)[0]
		for _, m := range []string{c.State.Terminated.Message, c.LastTerminationState.Terminated.Message} {
			if len(m) != want {
				t.Errorf("%s: %d bytes, want %d", text, len(m), want)
			}
		}
	}
}
