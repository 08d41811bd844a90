package stories

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeBehaviours holds the pods of TestAPodBehavesAsOnAnyNode.
const nodeBehaviours = "testdata/nodebehaviours.yaml"

// endings are the final states of those containers of nodeBehaviours that are not restarted: exit code, reason,
// restarts if there were any, message.
var endings = map[string]string{
	"ends/first":      "0 Completed",
	"ends/second":     "0 Completed",
	"ends/side":       "0 Completed",
	"ends/order":      "0 Completed one two",
	"ends/failed":     "3 Error why",
	"ends/logs":       "1 Error last words",
	"ends/elsewhere":  "0 Completed custom",
	"ends/absent":     `128 StartError exec: "/no/such": no such file or directory`,
	"ends/hungry":     "137 OOMKilled",
	"ends/defaults":   "0 Completed entry default grey /work 1000",
	"ends/args":       "0 Completed entry mine grey /work 1000",
	"ends/command":    "0 Completed own grey /work 1000",
	"ends/variables":  "0 Completed 12 $(A) $(NONE) 1",
	"ends/fromfile":   "0 Completed written written!",
	"ends/downward":   "0 Completed ends default default 500 1048576 fargate-ip",
	"ends/objects":    "0 Completed red 12 s3cret []",
	"ends/files":      "0 Completed red 440 4000 440 4000 0 read-only",
	"ends/projected":  "0 Completed 12s3cretkept 1 1 640 0",
	"ends/identity":   "0 Completed 1000 3000 3000 4000 5000 1000 4000",
	"ends/drop":       "0 Completed CapEff: 0000000000000000 refused",
	"ends/add":        "0 Completed set",
	"ends/plain":      "0 Completed refused",
	"ends/privileged": "0 Completed mounted",
	"ends/same":       "0 Completed NoNewPrivs: 1",
	"ends/filtered":   "0 Completed NoNewPrivs: 0 Seccomp: 2 refused",
	"ends/retried":    "0 Completed restarts 1",
	"ends/locked":     "0 Completed read-only shared",
	"ends/memory":     "0 Completed tmpfs No space left on device",
	"ends/below":      "0 Completed deep named read-only",
	"ends/nested":     "0 Completed deep inner",
	"ends/user":       "0 Completed 2777 4000",
	"ends/volume":     "0 Completed app:x:1000:1000::/work:/bin/sh read-only no programs",
	"ends/limits":     "0 Completed 10000 100000 33554432",
	"ends/mode":       "0 Completed 2777 4000",
	"ends/names":      "0 Completed box 1",
	"ends/sysctl":     "0 Completed 20000 21000",
	"ends/weight":     "0 Completed 1",
	"ends/place":      "0 Completed /made/here",

	"twice/init": "0 Completed restarts 1",
	"twice/main": "0 Completed restarts 1",
	"twice/once": "0 Completed",

	"rounds/init":   "0 Completed restarts 1",
	"rounds/source": "0 Completed restarts 1",

	"stops/init": "5 Error",
	"stops/main": "PodInitializing",

	"together/named":   "0 Completed other.example other.example other.example",
	"together/sleeper": "143 Error",
	"together/finder":  "0 Completed found closed 0",
}

// sickness is how runs of the pod sick end, each of which is followed by another. A shell that has set its trap
// before it is terminated ends with 7, a faster one has to be killed.
var sickness = map[string]string{
	"exec": "Error", "http": "Error", "tcp": "Error", "grpc": "Error", "startup": "Error", "hook": "Error",
	"stubborn": "137 Error", "clean": "0 Completed", "finishes": "0 Completed", "crashes": "5 Error",
}

// farewells is how the containers of the pod steady end when it is deleted.
var farewells = map[string]string{
	"exec": "21 Error", "stubborn": "137 Error", "signal": "42 Error",
	"again": "0 Completed restarts 1",
}

// A pod in a microVM runs as under a kubelet: the behaviours of docs/which-behaviours-of-a-node-do-microvms-have.md,
// in real microVMs.
func TestAPodBehavesAsOnAnyNode(t *testing.T) {
	c := microVMs(t)
	c.buildTrialImages()
	c.kubectl("apply", "-f", nodeBehaviours)
	c.behaves(endings)
}

// So does a pod in namespaces, except for what would give it root on this host.
func TestAPodInNamespacesBehavesAsOnAnyNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	c := podHost(t, "--engine", "namespace")
	c.buildTrialImages()
	manifest, err := os.ReadFile(nodeBehaviours)
	if err != nil {
		t.Fatal(err)
	}
	profile, rest, _ := strings.Cut(string(manifest), "\n---\n")
	c.apply(profile)
	c.waitsForProfile("it has no virtual machines, and the profile does not ask for engine Namespace")
	if out := c.kubectl("patch", "fargateprofile", "trials", "--type=merge", "-p",
		`{"spec":{"engine":"Namespace","restrictions":"None"}}`); !strings.Contains(out,
		"Warning: spec.engine: Namespace is no virtual machine") {
		t.Errorf("kubectl said %q", out)
	}
	c.waitsForProfile("microVM hosts:")
	c.apply(rest)
	want := maps.Clone(endings)
	want["ends/privileged"] = "128 StartError container privileged is privileged: in namespaces that is root on the host: run the pod in a virtual machine (engine KVM or TCG)"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		delete(want, "ends/weight") // cgroup version 1 has shares instead, in another file
		delete(want, "ends/limits")
	}
	c.behaves(want)
	c.wantEvents("reason=NoSecurityBoundary,involvedObject.name=ends", "shares the kernel of host")
}

// waitsForProfile waits until the profile's condition says the text.
func (c *cluster) waitsForProfile(text string) {
	c.t.Helper()
	c.eventually(time.Minute, func() error {
		if got := c.kubectl("get", "fargateprofile", "trials", "-o",
			"jsonpath={.status.conditions[0].message}"); !strings.Contains(got, text) {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// behaves checks what becomes of the pods of nodeBehaviours; want holds the expected final states of containers.
func (c *cluster) behaves(want map[string]string) {
	c.t.Helper()
	t := c.t
	c.waitsFor("root", "container has runAsNonRoot and image will run as root", "CreateContainerConfigError")
	c.kubectl("delete", "pod", "root")

	for name, phase := range map[string]corev1.PodPhase{
		"ends": "Failed", "twice": "Succeeded", "rounds": "Succeeded", "stops": "Failed",
		"together": "Failed",
	} {
		pod := c.podWhen(name, func(p *corev1.Pod) error { return differ("phase", p.Status.Phase, phase) })
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if end, told := want[name+"/"+s.Name]; told && ending(s) != end {
				t.Errorf("%s/%s: %q, want %q", name, s.Name, ending(s), end)
			}
		}
	}
	if got := c.kubectl("logs", "ends", "-c", "side"); got != "side ends\n" {
		t.Errorf("the sidecar logged %q", got)
	}
	c.isSick()
	c.isSteady()
	c.kubectl("delete", "pods", "--all")
	c.eventually(patience, c.nothingOfMicroVMs)
}

// isSick checks that each container of the pod sick is restarted, and that the pod ends at its deadline.
func (c *cluster) isSick() {
	c.t.Helper()
	c.podWhen("sick", func(p *corev1.Pod) error {
		for _, s := range p.Status.ContainerStatuses {
			e := s.LastTerminationState.Terminated
			if e == nil || s.RestartCount == 0 {
				return fmt.Errorf("%s was not restarted: %+v", s.Name, s.State)
			}
			if got := fmt.Sprint(e.ExitCode, " ", e.Reason); !strings.HasSuffix(got, sickness[s.Name]) {
				return fmt.Errorf("%s: %s, want %s", s.Name, got, sickness[s.Name])
			}
			if w := s.State.Waiting; s.Name == "crashes" && (w == nil || w.Reason != "CrashLoopBackOff") {
				return fmt.Errorf("crashes: %+v", s.State)
			}
		}
		return nil
	})
	if got := c.kubectl("logs", "sick", "-c", "crashes", "--previous"); got != "a run\n" {
		c.t.Errorf("the run before logged %q", got)
	}
	c.kubectl("patch", "pod", "sick", "-p", `{"spec":{"activeDeadlineSeconds":1}}`)
	c.podWhen("sick", func(p *corev1.Pod) error {
		return differ("end", fmt.Sprint(p.Status.Phase, " ", p.Status.Reason), "Failed DeadlineExceeded")
	})
}

// isSteady checks that the pod steady becomes ready, sees changes of its Secret, and terminates as specified.
func (c *cluster) isSteady() {
	c.t.Helper()
	c.podWhen("steady", func(p *corev1.Pod) error {
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if restarts := map[string]int32{"again": 1}[s.Name]; s.RestartCount != restarts || s.Started == nil ||
				!*s.Started || s.Ready != (s.Name != "ready") {
				return fmt.Errorf("%s: %+v", s.Name, s)
			}
		}
		return nil
	})
	c.inSteady("ready", "touch", "/shared/ready")
	gate := func(p *corev1.Pod) error {
		for _, k := range p.Status.Conditions {
			if k.Type == corev1.PodReady {
				return differ("Ready", string(k.Status)+k.Reason, "FalseReadinessGatesNotReady")
			}
		}
		return fmt.Errorf("no condition Ready")
	}
	c.podWhen("steady", gate)
	c.kubectl("patch", "pod", "steady", "--subresource=status", "-p",
		`{"status":{"conditions":[{"type":"example.com/gate","status":"True"}]}}`)
	c.kubectl("wait", "--for=condition=Ready", "pod/steady", "--timeout=240s")
	if got := c.inSteady("again", "sh", "-c",
		"ls /shared/first /shared/post /mark 2>/dev/null; cat /keys/password /one"); got != "/shared/first\n/shared/post\ns3crets3cret" {
		c.t.Errorf("a volume stays, a writable layer goes with its run: %q", got)
	}
	c.kubectl("patch", "secret", "keys", "-p", `{"stringData":{"password":"changed"}}`)
	c.eventually(time.Minute, func() error {
		return differ("the Secret's volume and its sub-path", c.inSteady("again", "cat", "/keys/password", "/one"),
			"changeds3cret")
	})
	c.inSteady("ready", "rm", "/shared/ready")
	c.kubectl("wait", "--for=condition=Ready=false", "pod/steady", "--timeout=240s")

	c.kubectl("delete", "pod", "steady", "--wait=false")
	pod := c.podWhen("steady", func(p *corev1.Pod) error {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated == nil {
				return fmt.Errorf("%s: %+v", s.Name, s.State)
			}
		}
		return nil
	})
	for _, s := range pod.Status.ContainerStatuses {
		if want, told := farewells[s.Name]; told && ending(s) != want {
			c.t.Errorf("steady/%s: %q, want %q", s.Name, ending(s), want)
		}
	}
	c.kubectl("patch", "pod", "steady", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

func (c *cluster) inSteady(container string, args ...string) string {
	c.t.Helper()
	return c.kubectl(append([]string{"exec", "steady", "-c", container, "--"}, args...)...)
}

func differ[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

// podWhen waits until a pod of namespace default is as wanted, and returns it.
func (c *cluster) podWhen(name string, wanted func(*corev1.Pod) error) *corev1.Pod {
	c.t.Helper()
	p := &corev1.Pod{}
	c.eventually(patience, func() error {
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
			return err
		}
		if err := wanted(p); err != nil {
			return fmt.Errorf("pod %s is %s %s: %w", name, p.Status.Phase, p.Status.Message, err)
		}
		return nil
	})
	return p
}

// ending describes in one line how a container ended.
func ending(s corev1.ContainerStatus) string {
	if s.State.Waiting != nil {
		return s.State.Waiting.Reason
	}
	e := s.State.Terminated
	if e == nil {
		return "it runs"
	}
	out := fmt.Sprint(e.ExitCode, " ", e.Reason)
	if s.RestartCount > 0 {
		out += fmt.Sprint(" restarts ", s.RestartCount)
	}
	return strings.Join(strings.Fields(out+" "+e.Message), " ")
}

// buildTrialImages builds the images of nodeBehaviours, from this host's busybox, scripts and a gRPC server. One
// image has no settings of how to run it, the other has all of them.
func (c *cluster) buildTrialImages() {
	c.t.Helper()
	dir := c.t.TempDir()
	for _, d := range []string{"bin", "etc", "tmp", "www", "work"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		"etc/passwd":     "root:x:0:0:root:/:/bin/sh\napp:x:1000:1000::/work:/bin/sh\n",
		"www/index.html": "here\n",
		"bin/tell":       "#!/bin/sh\nexec >/dev/termination-log 2>&1\neval \"$1\"\n",
		"bin/say":        "#!/bin/sh\necho \"$@\" $COLOUR $(pwd) $(id -u) >/dev/termination-log\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	tag := func(name string, more ...string) []string {
		return append([]string{absolute(c.t, binary), "image", "build", dir, "--data-dir", c.dir, "--tag", name}, more...)
	}
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "bin") + "/", "./testdata/health", "./testdata/attack"},
		{"sh", "-c", `busybox=$(command -v busybox) && cp "$busybox" "$0/bin/busybox" && "$0/bin/busybox" --install "$0/bin"`, dir},
		tag("example.local/trial:1"),
		tag("example.local/worded:1", "--entrypoint", "/bin/say", "--entrypoint", "entry", "--env", "COLOUR=grey",
			"--workdir", "/work", "--user", "app", "--stop-signal", "SIGQUIT", "--", "default"),
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			c.t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}

// The document names every container that demonstrates a behaviour, and no others.
func TestThePageOfNodeBehavioursNamesItsContainers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "which-behaviours-of-a-node-do-microvms-have.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := maps.Clone(endings)
	for pod, containers := range map[string][]string{
		"sick":   slices.Collect(maps.Keys(sickness)),
		"steady": {"web", "grpc", "slow", "ready", "again", "exec", "http", "unknown", "stubborn", "signal"}, "root": {"main"},
	} {
		for _, name := range containers {
			known[pod+"/"+name] = ""
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z]+/[a-z]+)`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
		if _, ok := known[m[1]]; !ok {
			t.Errorf("the page names %s, which is in no pod of %s", m[1], nodeBehaviours)
		}
	}
	for name := range known {
		if !named[name] {
			t.Errorf("the page does not name %s", name)
		}
	}
}
