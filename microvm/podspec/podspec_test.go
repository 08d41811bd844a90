package podspec

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/wire"
)

// cluster has one ConfigMap and one Secret with all kinds of keys.
type cluster struct{}

func (cluster) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	switch name {
	case "settings":
		return &corev1.ConfigMap{
			Data:       map[string]string{"COLOUR": "blue", "SIZE": "12"},
			BinaryData: map[string][]byte{"raw": {0, 1}},
		}, nil
	case "unreachable":
		return nil, errors.New("the API server is away")
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (cluster) Secret(_, name string) (*corev1.Secret, error) {
	if name == "keys" {
		return &corev1.Secret{Data: map[string][]byte{"password": []byte("s3cret")}}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (cluster) Token(_ context.Context, pod *corev1.Pod, audience string, lifetime time.Duration) (string, error) {
	return "token of " + pod.Spec.ServiceAccountName + " for " + audience + " " + lifetime.String(), nil
}

// busybox is an image without an entrypoint.
type busybox struct{}

func (busybox) Process(c image.Container) (image.Process, error) {
	argv := append(slices.Clone(c.Command), c.Args...)
	if len(argv) == 0 {
		argv = []string{"sh"}
	}
	p := image.Process{
		Argv: argv, Env: append([]string{"PATH=/bin"}, c.Env...),
		Dir: "/" + strings.TrimPrefix(c.WorkingDir, "/"),
	}
	if c.RunAsUser != nil {
		p.UID = uint32(*c.RunAsUser)
	}
	p.Groups = []uint32{10}
	return p, nil
}

// read parses a pod from YAML.
func read(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func translated(t *testing.T, text string) (wire.Pod, error) {
	t.Helper()
	p := read(t, text)
	return Spec(t.Context(), p, options(p))
}

// refused returns why a pod, or the first container that is held, cannot be translated.
func refused(t *testing.T, text string) error {
	t.Helper()
	p := read(t, text)
	spec, err := Spec(t.Context(), p, options(p))
	for _, c := range spec.Containers {
		if err == nil {
			_, err = Container(t.Context(), p, c.Name, options(p))
		}
	}
	return err
}

func options(p *corev1.Pod) Options {
	o := Options{
		Objects: cluster{}, PodIP: "10.0.0.7", HostIP: "10.0.0.7", CPUMilli: 1500, MemoryBytes: 1 << 30,
		Services: []string{"KUBERNETES_SERVICE_HOST=10.96.0.1"},
		Disks:    map[string]string{}, Images: map[string]Image{},
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		o.Images[c.Name], o.Disks[c.Name] = busybox{}, "disk-"+c.Name
	}
	return o
}

func TestVariables(t *testing.T) {
	got, err := translated(t, `
metadata: {name: web-0, namespace: n, uid: u, labels: {app: web}, annotations: {a: "1"}}
spec:
  nodeName: fargate-1
  serviceAccountName: sa
  containers:
  - name: c
    command: ["echo", "$(COLOUR) $(OWN) $(NONE) $$(COLOUR)"]
    resources: {requests: {cpu: 250m, memory: 64Mi}, limits: {memory: 128Mi}}
    envFrom:
    - {configMapRef: {name: settings}}
    - {secretRef: {name: keys}, prefix: K_}
    - {configMapRef: {name: absent, optional: true}}
    env:
    - {name: OWN, value: "at $(KUBERNETES_SERVICE_HOST)"}
    - {name: COLOUR, value: red}
    - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: REQUESTED, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: keys, key: password}}}
    - {name: GONE, valueFrom: {secretKeyRef: {name: keys, key: other, optional: true}}}
    - {name: RAW, valueFrom: {configMapKeyRef: {name: settings, key: raw, optional: true}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	c := got.Containers[0]
	want := []string{
		"PATH=/bin", "HOSTNAME=web-0", "KUBERNETES_SERVICE_HOST=10.96.0.1", "COLOUR=red", "SIZE=12", "K_password=s3cret",
		"OWN=at 10.96.0.1", "ADDRESS=10.0.0.7", "NAME=web-0", "APP=web", "NODE=fargate-1", "CPUS=2", "REQUESTED=250",
		"MEMORY=128", "PASSWORD=s3cret",
	}
	if !slices.Equal(c.Env, want) {
		t.Errorf("got  %q\nwant %q", c.Env, want)
	}
	if c.Args[1] != "red at 10.96.0.1 $(NONE) $(COLOUR)" {
		t.Errorf("command %q", c.Args)
	}
	if c.MemoryBytes != 128<<20 || c.CPUMilli != 0 || c.CPUShareMilli != 250 || c.Disk != "disk-c" {
		t.Errorf("got %+v", c)
	}
}

func TestVolumes(t *testing.T) {
	got, err := translated(t, `
metadata: {name: p, namespace: n, labels: {app: web, tier: "1"}}
spec:
  serviceAccountName: sa
  containers:
  - name: c
    env: [{name: SUB, value: logs}]
    resources: {limits: {cpu: 500m}}
    volumeMounts:
    - {name: scratch, mountPath: /data, subPathExpr: "x/$(SUB)"}
    - {name: all, mountPath: /etc/all, readOnly: true}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: ram, emptyDir: {medium: Memory, sizeLimit: 10Mi}}
  - {name: large, emptyDir: {medium: Memory, sizeLimit: 10Gi}}
  - {name: whole, emptyDir: {medium: Memory}}
  - {name: config, configMap: {name: settings, defaultMode: 288, items: [{key: SIZE, path: a/size, mode: 256}, {key: COLOUR, path: colour}]}}
  - {name: maybe, secret: {secretName: absent, optional: true}}
  - name: all
    projected:
      sources:
      - {serviceAccountToken: {path: token, audience: api, expirationSeconds: 600}}
      - {secret: {name: keys}}
      - {configMap: {name: settings, items: [{key: COLOUR, path: password}]}}
      - downwardAPI:
          items:
          - {path: labels, fieldRef: {fieldPath: metadata.labels}}
          - {path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []wire.Volume{
		{Name: "scratch"},
		{Name: "ram", Memory: true, SizeLimit: 10 << 20},
		{Name: "large", Memory: true, SizeLimit: 1 << 30},
		{Name: "whole", Memory: true, SizeLimit: 1 << 30},
		{
			Name: "config", Projected: true,
			Files: []wire.File{
				{Path: "a/size", Mode: 0o400, Data: []byte("12")},
				{Path: "colour", Mode: 0o440, Data: []byte("blue")},
			},
		},
		{Name: "maybe", Projected: true},
		{Name: "all", Projected: true, Files: []wire.File{
			{Path: "token", Mode: 0o644, Data: []byte("token of sa for api 10m0s")},
			{Path: "password", Mode: 0o644, Data: []byte("blue")},
			{Path: "labels", Mode: 0o644, Data: []byte("app=\"web\"\ntier=\"1\"")},
			{Path: "cpu", Mode: 0o644, Data: []byte("500")},
		}},
	}
	for i := range want {
		if !reflect.DeepEqual(got.Volumes[i], want[i]) {
			t.Errorf("got  %+v\nwant %+v", got.Volumes[i], want[i])
		}
	}
	mounts := []wire.Mount{
		{Volume: "scratch", Path: "/data", SubPath: "x/logs"},
		{Volume: "all", Path: "/etc/all", ReadOnly: true},
	}
	if !reflect.DeepEqual(got.Containers[0].Mounts, mounts) {
		t.Errorf("got %+v", got.Containers[0].Mounts)
	}
}

// A volume in memory is as large as under a kubelet: no larger than what its pod may use.
func TestVolumesInMemoryFitTheirPod(t *testing.T) {
	const one, other = "{name: c, resources: {limits: {memory: 64Mi}}}", "{name: d, resources: {limits: {memory: 32Mi}}}"
	for spec, want := range map[string]int64{
		"containers: [" + one + ", " + other + "]":                                   96 << 20,
		"containers: [" + one + ", {name: d}]":                                       1 << 30,
		"containers: [{name: c, resources: {limits: {memory: 2Gi}}}]":                1 << 30,
		"resources: {limits: {memory: 128Mi}}, containers: [" + one + ", {name: d}]": 128 << 20,
	} {
		got, err := translated(t, "metadata: {name: p, namespace: n}\nspec: {"+spec+
			", volumes: [{name: ram, emptyDir: {medium: Memory}}]}")
		if err != nil {
			t.Fatal(err)
		}
		if got.Volumes[0].SizeLimit != want {
			t.Errorf("%s: the volume takes %d bytes, want %d", spec, got.Volumes[0].SizeLimit, want)
		}
	}
}

// What cannot be read keeps nothing else from being renewed.
func TestReadableVolumesAreReturnedWithTheError(t *testing.T) {
	pod := read(t, `
metadata: {name: p, namespace: n}
spec:
  volumes: [{name: gone, configMap: {name: absent}}, {name: there, configMap: {name: settings}}]
`)
	got, err := Volumes(t.Context(), pod, Options{Objects: cluster{}})
	if !errors.Is(err, ErrMissing) || len(got) != 1 || got[0].Name != "there" || len(got[0].Files) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCapabilitiesAreContainerds(t *testing.T) {
	allBut := func(but string) string {
		return strings.Join(slices.DeleteFunc(slices.Sorted(slices.Values(wire.Capabilities)),
			func(name string) bool { return name == but }), " ")
	}
	for security, want := range map[string]string{
		"{add: [ALL]}":                                    allBut(""),
		"{add: [all], drop: [CHOWN]}":                     allBut("CHOWN"),
		"{add: [ALL], drop: [ALL]}":                       "",
		"{add: [ALL, NET_ADMIN], drop: [ALL]}":            "NET_ADMIN",
		"{add: [NET_ADMIN, CAP_KILL], drop: [all, KILL]}": "NET_ADMIN",
	} {
		got, err := translated(t, "metadata: {name: p, namespace: n}\n"+
			"spec: {containers: [{name: c, securityContext: {capabilities: "+security+"}}]}")
		if err != nil {
			t.Fatal(err)
		}
		if have := strings.Join(got.Containers[0].Capabilities, " "); have != want {
			t.Errorf("%s: it has %q, want %q", security, have, want)
		}
	}
}

// vt100 is an image that sets TERM.
type vt100 struct{ busybox }

func (v vt100) Process(c image.Container) (image.Process, error) {
	c.Env = append([]string{"TERM=vt100"}, c.Env...)
	return v.busybox.Process(c)
}

func TestATerminalHasAType(t *testing.T) {
	for _, c := range []struct {
		spec string
		of   Image
		want string
	}{
		{"{name: c}", busybox{}, "PATH=/bin HOSTNAME=p"},
		{"{name: c, tty: true}", busybox{}, "TERM=xterm PATH=/bin HOSTNAME=p"},
		{"{name: c, tty: true}", vt100{}, "PATH=/bin TERM=vt100 HOSTNAME=p"},
		{"{name: c, tty: true, env: [{name: TERM, value: dumb}]}", busybox{}, "PATH=/bin HOSTNAME=p TERM=dumb"},
	} {
		pod := read(t, "metadata: {name: p}\nspec: {containers: ["+c.spec+"]}")
		got, err := Spec(t.Context(), pod, Options{Objects: cluster{}, Images: map[string]Image{"c": c.of}})
		if err != nil {
			t.Fatal(err)
		}
		if have := strings.Join(got.Containers[0].Env, " "); have != c.want {
			t.Errorf("%s: its variables are %q, want %q", c.spec, have, c.want)
		}
	}
}

func TestContainersProbesAndSecurity(t *testing.T) {
	got, err := translated(t, `
metadata: {name: p, namespace: n}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 5
  shareProcessNamespace: true
  hostname: named
  hostAliases: [{ip: 10.1.1.1, hostnames: [db]}]
  securityContext: {runAsUser: 1000, fsGroup: 2000, supplementalGroups: [3000], sysctls: [{name: net.core.somaxconn, value: "1"}]}
  initContainers:
  - {name: init}
  - {name: side, restartPolicy: Always}
  containers:
  - name: c
    tty: true
    ports: [{name: http, containerPort: 8080}]
    securityContext: {runAsUser: 7, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [all], add: [NET_BIND_SERVICE]}}
    livenessProbe: {httpGet: {path: /ok, port: http, scheme: HTTPS, httpHeaders: [{name: X, value: v}]}, periodSeconds: 3}
    readinessProbe: {exec: {command: ["true"]}, initialDelaySeconds: 2, terminationGracePeriodSeconds: 1}
    startupProbe: {grpc: {port: 9, service: s}, failureThreshold: 30}
    lifecycle: {preStop: {sleep: {seconds: 2}}, postStart: {tcpSocket: {port: 81}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []wire.ContainerKind{wire.KindInit, wire.KindSidecar, wire.KindRegular}
	for i, k := range kinds {
		if got.Containers[i].Kind != k {
			t.Errorf("%s is %s, want %s", got.Containers[i].Name, got.Containers[i].Kind, k)
		}
	}
	if got.Hostname != "named" || got.GracePeriod != 5*time.Second || !got.ShareProcessNamespace ||
		got.RestartPolicy != wire.RestartOnFailure || *got.FSGroup != 2000 ||
		got.Sysctls["net.core.somaxconn"] != "1" ||
		!reflect.DeepEqual(got.Network.Hosts, []wire.HostAlias{{IP: "10.1.1.1", Names: []string{"db"}}}) {
		t.Errorf("got %+v", got)
	}
	same := func(a string, b corev1.Capability) bool { return a == string(b) }
	if got.Containers[0].User.UID != 1000 ||
		!slices.EqualFunc(got.Containers[0].Capabilities, fargate.RuntimeCapabilities, same) {
		t.Errorf("the init container: %+v", got.Containers[0])
	}
	c := got.Containers[2]
	if c.User.UID != 7 || !slices.Equal(c.User.Groups, []int64{10, 2000, 3000}) || !c.NoNewPrivileges ||
		!c.ReadOnlyRoot || !c.TTY || !slices.Equal(c.Capabilities, []string{"NET_BIND_SERVICE"}) {
		t.Errorf("got %+v", c)
	}
	grace := time.Second
	for what, pair := range map[string][2]any{
		"liveness": {
			c.LivenessProbe,
			&wire.Probe{
				Action: wire.Action{HTTP: &wire.HTTPGet{
					Scheme: "https", Port: 8080, Path: "/ok",
					Headers: []wire.Header{{Name: "X", Value: "v"}},
				}},
				Period: 3 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3,
			},
		},
		"readiness": {
			c.ReadinessProbe,
			&wire.Probe{
				Action: wire.Action{Exec: []string{"true"}}, InitialDelay: 2 * time.Second, Period: 10 * time.Second,
				Timeout:          time.Second,
				SuccessThreshold: 1, FailureThreshold: 3, GracePeriod: &grace,
			},
		},
		"startup": {
			c.StartupProbe,
			&wire.Probe{
				Action: wire.Action{GRPC: &wire.GRPCHealth{Port: 9, Service: "s"}}, Period: 10 * time.Second,
				Timeout:          time.Second,
				SuccessThreshold: 1, FailureThreshold: 30,
			},
		},
		"preStop":   {c.PreStop, &wire.Action{Sleep: 2 * time.Second}},
		"postStart": {c.PostStart, &wire.Action{TCP: &wire.TCPSocket{Port: 81}}},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: got %+v, want %+v", what, pair[0], pair[1])
		}
	}
}

// As with a kubelet, what is wrong with one container holds back no other.
func TestAContainerIsHeldBackAlone(t *testing.T) {
	got, err := translated(t, `
metadata: {name: p, namespace: n}
spec:
  initContainers: [{name: side, restartPolicy: Always, envFrom: [{configMapRef: {name: absent}}]}]
  containers:
  - {name: good, command: [sleep]}
  - {name: profile, securityContext: {seccompProfile: {type: Localhost, localhostProfile: x}}, tty: true}
  - {name: key, env: [{name: X, valueFrom: {secretKeyRef: {name: keys, key: other}}}], restartPolicy: Never}
`)
	if err != nil || len(got.Containers) != 4 {
		t.Fatalf("%d containers, %v", len(got.Containers), err)
	}
	side, good, profile, key := got.Containers[0], got.Containers[1], got.Containers[2], got.Containers[3]
	for _, c := range []struct {
		of           wire.Container
		reason, says string
	}{
		{side, "CreateContainerConfigError", `configmap "absent" not found`},
		{profile, "CreateContainerError", `failed to create containerd container: cannot load seccomp profile`},
		{key, "CreateContainerConfigError", `variable X: key "other in secret keys" not found`},
	} {
		if h := c.of.Held; h == nil || h.Reason != c.reason || !strings.HasPrefix(h.Message, c.says) {
			t.Errorf("%s: %+v, want %s %s", c.of.Name, h, c.reason, c.says)
		}
	}
	if good.Held != nil || !slices.Equal(good.Args, []string{"sleep"}) {
		t.Errorf("%+v", good)
	}
	// What the pod alone determines is known even so.
	if side.Kind != wire.KindSidecar || !profile.TTY || key.RestartPolicy != wire.RestartNever {
		t.Errorf("%+v\n%+v\n%+v", side, profile, key)
	}
}

// A volume whose image is missing holds back only the containers that mount it.
func TestAnImageVolumeHoldsBackWhatMountsIt(t *testing.T) {
	p := read(t, `
metadata: {name: p, namespace: n}
spec:
  containers: [{name: with, volumeMounts: [{name: data, mountPath: /data}]}, {name: without}]
  volumes: [{name: data, image: {reference: a}}, {name: scratch, emptyDir: {}}]
`)
	o := options(p)
	for _, pulled := range []bool{false, true} {
		volumes := []wire.Volume{{Name: "scratch"}}
		if pulled {
			o.ImageVolumes = map[string]string{"data": "disk-data"}
			volumes = append([]wire.Volume{{Name: "data", Disk: "disk-data"}}, volumes...)
		}
		got, err := Spec(t.Context(), p, o)
		if err != nil || !reflect.DeepEqual(got.Volumes, volumes) {
			t.Fatalf("%+v, %v", got.Volumes, err)
		}
		if with, without := got.Containers[0], got.Containers[1]; (with.Held == nil) != pulled || without.Held != nil {
			t.Errorf("pulled %t: %+v, %+v", pulled, with.Held, without.Held)
		} else if pulled && !reflect.DeepEqual(with.Mounts,
			[]wire.Mount{{Volume: "data", Disk: "disk-data", Path: "/data", ReadOnly: true}}) {
			t.Errorf("%+v", with.Mounts)
		}
	}
}

func TestWhatCannotBeTranslatedIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		spec    string
		want    string
		missing bool
	}{
		"a ConfigMap that is not there": {
			`{containers: [{name: c, envFrom: [{configMapRef: {name: absent}}]}]}`,
			`configmap "absent" not found`, true,
		},
		"a key that is not there": {`{containers: [{name: c, env: [{name: X, valueFrom: {configMapKeyRef: {name: settings, key: other}}}]}]}`, `variable X: key "other in configmap settings" not found`, true},
		"a Secret of a volume": {
			`{containers: [{name: c}], volumes: [{name: v, secret: {secretName: absent}}]}`,
			`volume v: secret "absent" not found`, true,
		},
		"an item of a volume": {`{containers: [{name: c}], volumes: [{name: v, configMap: {name: settings, items: [{key: other, path: x}]}}]}`, `volume v: key "other" not found`, true},
		"an API server that is away": {
			`{containers: [{name: c, envFrom: [{configMapRef: {name: unreachable}}]}]}`,
			`read configmap "unreachable": the API server is away`, false,
		},
		"a field that is none": {`{containers: [{name: c, env: [{name: X, valueFrom: {fieldRef: {fieldPath: spec.none}}}]}]}`, "field spec.none", false},
		"a volume of the node": {
			`{containers: [{name: c}], volumes: [{name: v, hostPath: {path: /}}]}`,
			"volume v: its type is not supported by microVMs", false,
		},
		"a path from the root":        {`{containers: [{name: c, env: [{name: A, value: /x}], volumeMounts: [{name: v, mountPath: /x, subPathExpr: $(A)}]}], volumes: [{name: v, emptyDir: {}}]}`, "must not be an absolute path", false},
		"a path of unknown variables": {`{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x, subPathExpr: $(A)/$(B)}]}], volumes: [{name: v, emptyDir: {}}]}`, "variables without a value: A, B", false},
		"a way out of a volume":       {`{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x, subPath: ../..}]}], volumes: [{name: v, emptyDir: {}}]}`, "leads out of the volume", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(t, "metadata: {name: p, namespace: n}\nspec: "+c.spec)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrMissing) != c.missing {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func condition(s corev1.PodStatus, kind corev1.PodConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return string(c.Status) + c.Reason
		}
	}
	return "none"
}

func message(s corev1.PodStatus, kind corev1.PodConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

func TestHowAPodIsDoing(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	running := func(ready bool) wire.ContainerStatus {
		return wire.ContainerStatus{Name: "c", State: wire.Running, Started: now, Ready: ready, StartupDone: true}
	}
	exited := func(name string, code int) wire.ContainerStatus {
		return wire.ContainerStatus{
			Name: name, State: wire.Terminated,
			Exit: &wire.Exit{Code: code, Reason: "x", Started: now, Finished: now},
		}
	}
	plain, staged := `{containers: [{name: c}]}`,
		`{initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: c}]}`
	for name, c := range map[string]struct {
		spec  string
		a     Account
		phase corev1.PodPhase
		ready string
		state func(corev1.PodStatus) bool
	}{
		"nothing is known": {plain, Account{}, "Pending", "FalseContainersNotReady", func(s corev1.PodStatus) bool {
			return s.ContainerStatuses[0].State.Waiting.Reason == "ContainerCreating"
		}},
		"its image cannot be had": {
			plain,
			Account{Waiting: map[string]corev1.ContainerStateWaiting{"c": {Reason: "ErrImagePull", Message: "no"}}},
			"Pending", "FalseContainersNotReady",
			func(s corev1.PodStatus) bool { return s.ContainerStatuses[0].State.Waiting.Reason == "ErrImagePull" },
		},
		"init containers run": {
			staged,
			Account{Pod: wire.PodStatus{Containers: []wire.ContainerStatus{{Name: "i", State: wire.Running, Started: now}}}},
			"Pending", "FalseContainersNotReady",
			func(s corev1.PodStatus) bool {
				return s.ContainerStatuses[0].State.Waiting.Reason == "PodInitializing" &&
					condition(s, corev1.PodInitialized) == "FalseContainersNotInitialized"
			},
		},
		"it runs": {
			plain,
			Account{Pod: wire.PodStatus{
				Initialized: true,
				Containers:  []wire.ContainerStatus{running(false)},
			}},
			"Running", "FalseContainersNotReady",
			func(s corev1.PodStatus) bool { return *s.ContainerStatuses[0].Started },
		},
		"it is ready": {
			plain,
			Account{
				ImageIDs: map[string]string{"c": "sha"},
				Pod:      wire.PodStatus{Initialized: true, Containers: []wire.ContainerStatus{running(true)}},
			},
			"Running", "True",
			func(s corev1.PodStatus) bool { return s.ContainerStatuses[0].ImageID == "sha" },
		},
		"a gate is not met": {
			`{readinessGates: [{conditionType: x/y}], containers: [{name: c}]}`,
			Account{Pod: wire.PodStatus{Initialized: true, Containers: []wire.ContainerStatus{running(true)}}},
			"Running",
			"FalseReadinessGatesNotReady", nil,
		},
		"a sidecar is not ready": {
			staged,
			Account{Pod: wire.PodStatus{
				Initialized: true,
				Containers:  []wire.ContainerStatus{exited("i", 0), {Name: "s", State: wire.Running}, running(true)},
			}},
			"Running", "FalseContainersNotReady", nil,
		},
		"one of its two containers has not been started": {
			`{containers: [{name: c}, {name: d}]}`,
			Account{Pod: wire.PodStatus{
				Initialized: true, Containers: []wire.ContainerStatus{running(true), {Name: "d", State: wire.Waiting}},
			}},
			"Pending", "FalseContainersNotReady", func(s corev1.PodStatus) bool {
				return message(s, corev1.PodReady) == "containers with unready status: [d]"
			},
		},
		"it crashed and waits": {
			plain,
			Account{Pod: wire.PodStatus{
				Initialized: true,
				Containers: []wire.ContainerStatus{{
					Name: "c", State: wire.Waiting, Reason: "CrashLoopBackOff", Restarts: 2,
					LastExit: &wire.Exit{Code: 1},
				}},
			}},
			"Running", "FalseContainersNotReady", func(s corev1.PodStatus) bool {
				return s.ContainerStatuses[0].RestartCount == 2 &&
					s.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode == 1
			},
		},
		"it is done": {
			plain,
			Account{Ended: true, Pod: wire.PodStatus{
				Initialized: true, Done: true,
				Containers: []wire.ContainerStatus{exited("c", 0)},
			}},
			"Succeeded", "FalsePodCompleted", nil,
		},
		"it failed": {
			plain,
			Account{Ended: true, Pod: wire.PodStatus{
				Initialized: true, Done: true,
				Containers: []wire.ContainerStatus{exited("c", 3)},
			}},
			"Failed", "FalsePodFailed", nil,
		},
		"its init failed": {
			staged,
			Account{Pod: wire.PodStatus{Done: true, Containers: []wire.ContainerStatus{exited("i", 1)}}},
			"Failed",
			"FalsePodFailed", nil,
		},
		"a sidecar that is killed at the end is no failure": {
			staged,
			Account{Ended: true, Pod: wire.PodStatus{
				Initialized: true, Done: true,
				Containers: []wire.ContainerStatus{exited("i", 0), exited("s", 137), exited("c", 0)},
			}},
			"Succeeded", "FalsePodCompleted", nil,
		},
		"its kernel panicked": {
			plain,
			Account{
				Ended: true, Failure: "the virtual machine ended: panic",
				Pod: wire.PodStatus{Initialized: true, Containers: []wire.ContainerStatus{exited("c", 137)}},
			},
			"Failed",
			"FalsePodFailed",
			func(s corev1.PodStatus) bool { return s.Message == "the virtual machine ended: panic" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Status(read(t, "metadata: {name: p}\nspec: "+c.spec), c.a)
			if got.Phase != c.phase || condition(got, corev1.PodReady) != c.ready || c.state != nil && !c.state(got) {
				t.Errorf("phase %s, ready %s, want %s %s; %+v", got.Phase, condition(got, corev1.PodReady), c.phase, c.ready, got)
			}
		})
	}
}

func TestAResizeIsTold(t *testing.T) {
	p := read(t, `
metadata: {name: p, generation: 2}
spec: {containers: [{name: c, resources: {requests: {cpu: 20m}}}]}
`)
	had := read(t, `
metadata: {name: p}
spec: {containers: [{name: c, resources: {requests: {cpu: 10m}}}]}
`).Spec.Containers[0].Resources
	account := Account{Pod: wire.PodStatus{
		Initialized: true, Containers: []wire.ContainerStatus{{Name: "c", State: wire.Running, Ready: true}},
	}}
	for name, c := range map[string]struct {
		change                     func(*Account)
		has, allocated             string
		pending, progress, message string
	}{
		"nothing is asked": {func(*Account) {}, "20m", "20m", "none", "none", ""},
		"it has been given": {func(a *Account) {
			a.Resources = map[string]corev1.ResourceRequirements{"c": p.Spec.Containers[0].Resources}
		}, "20m", "20m", "none", "none", ""},
		"it is under way": {
			func(a *Account) { a.Resources = map[string]corev1.ResourceRequirements{"c": had} }, "10m", "20m", "none", "True", "",
		},
		"it failed": {func(a *Account) {
			a.Resources, a.ResizeError = map[string]corev1.ResourceRequirements{"c": had}, "too little"
		}, "10m", "20m", "none", "TrueError", "too little"},
		"there is no room": {func(a *Account) {
			a.Resources, a.Infeasible = map[string]corev1.ResourceRequirements{"c": had}, "too much"
		}, "10m", "10m", "TrueInfeasible", "none", "too much"},
	} {
		t.Run(name, func(t *testing.T) {
			a := account
			c.change(&a)
			got := Status(p, a)
			s := got.ContainerStatuses[0]
			if s.Resources.Requests.Cpu().String() != c.has || s.AllocatedResources.Cpu().String() != c.allocated {
				t.Errorf("it has %v of %v, want %s of %s", s.Resources, s.AllocatedResources, c.has, c.allocated)
			}
			if condition(got, corev1.PodResizePending) != c.pending || condition(got, corev1.PodResizeInProgress) != c.progress ||
				message(got, corev1.PodResizePending)+message(got, corev1.PodResizeInProgress) != c.message {
				t.Errorf("its conditions are %+v", got.Conditions)
			}
			if got.ObservedGeneration != 2 {
				t.Errorf("generation %d was observed", got.ObservedGeneration)
			}
		})
	}
}

func TestEphemeralContainersAreToldOnce(t *testing.T) {
	p := read(t, `
metadata: {name: p}
spec:
  containers: [{name: c}]
  ephemeralContainers: [{name: new}, {name: runs}, {name: earlier}]
status:
  ephemeralContainerStatuses:
  - {name: earlier, containerID: "nodeless://e", state: {running: {}}}
`)
	got := Status(p, Account{
		Pod: wire.PodStatus{Containers: []wire.ContainerStatus{
			{Name: "c", State: wire.Running, Ready: true}, {Name: "runs", State: wire.Running},
		}},
		Waiting: map[string]corev1.ContainerStateWaiting{"new": {Reason: "ErrImagePull"}},
	})
	s := got.EphemeralContainerStatuses
	if len(s) != 3 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "ErrImagePull" || s[1].State.Running == nil ||
		s[2].State.Terminated == nil || s[2].State.Terminated.Reason != "ContainerStatusUnknown" {
		t.Errorf("their statuses are %+v", s)
	}
	if got.Phase != corev1.PodRunning || condition(got, corev1.PodReady) != "True" {
		t.Errorf("the pod is %s, ready %s", got.Phase, condition(got, corev1.PodReady))
	}
}
