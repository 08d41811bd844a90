package stories

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long microVMs under emulation may take on a busy machine.
const patience = 4 * time.Minute

// guestKernel is the directory where scripts/guest-kernel put the kernel of microVMs, or "" if it has not run.
func guestKernel() string {
	if dir := os.Getenv("NODELESS_GUEST_KERNEL"); dir != "" {
		return dir
	}
	cache, _ := os.UserCacheDir()
	dir := filepath.Join(cache, "nodeless", "kernel")
	if _, err := os.Stat(filepath.Join(dir, "boot")); err != nil {
		return ""
	}
	return dir
}

// needMicroVMs skips the test where microVMs cannot run, or fails it where they are required (microvm/microvmtest).
func needMicroVMs(t testing.TB) {
	t.Helper()
	if why := noMicroVMs(); why != "" && os.Getenv("NODELESS_REQUIRE_VM") != "" {
		t.Fatal(why)
	} else if why != "" {
		t.Skip(why)
	}
}

func noMicroVMs() string {
	for _, program := range []string{"qemu-system-x86_64", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed: run scripts/test-deps"
		}
	}
	if installed, _ := filepath.Glob("/boot/vmlinuz-*cloud*"); guestKernel() == "" && len(installed) == 0 {
		return "there is no guest kernel: run scripts/test-deps"
	}
	return ""
}

// microVMs returns a cluster that has the example's image. At the end of the test nothing of its microVMs may be
// left.
func microVMs(t *testing.T) *cluster {
	t.Helper()
	needMicroVMs(t)
	return podHost(t)
}

// podHost returns such a cluster with more flags and, like up, without add-ons.
func podHost(t *testing.T, flags ...string) *cluster {
	t.Helper()
	c := newCluster(t, append([]string{"--boot-time", "1s", "--addons=false"}, flags...)...)
	c.buildExampleImage()
	t.Cleanup(func() { // before the cluster's own cleanup, which then finds nothing to stop
		if out, err := c.run("down", "--now"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
		if c.cmd != nil {
			<-c.exit
			c.cmd = nil
		}
		if err := c.noMachines(); err != nil {
			t.Error("after down:", err)
		}
	})
	c.start()
	return c
}

func (c *cluster) buildExampleImage() {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(root, "examples", "fargate-image"), absolute(c.t, binary))
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("examples/fargate-image: %v\n%s", err, out)
	}
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// machineProcesses returns the processes of microVMs by the base name of the microVM's state directory. That
// directory is the process's working directory or, for processes in namespaces, its first argument.
func (c *cluster) machineProcesses() map[string]int {
	out := map[string]int{}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		dir, err := os.Readlink(filepath.Join(process, "cwd"))
		if b, _ := os.ReadFile(filepath.Join(process, "cmdline")); strings.HasPrefix(string(b), "nodeless-machine\x00") {
			dir = strings.Split(string(b), "\x00")[1]
		}
		if err != nil || !strings.HasPrefix(dir, filepath.Join(c.dir, "microvms")+"/") {
			continue
		}
		pid := 0
		_, _ = fmt.Sscanf(filepath.Base(process), "%d", &pid)
		out[strings.TrimSuffix(filepath.Base(dir), " (deleted)")] = pid
	}
	return out
}

// microVMProcesses returns the processes of pods' microVMs by microVM name. The others create templates.
func (c *cluster) microVMProcesses() map[string]int {
	all := c.machineProcesses()
	maps.DeleteFunc(all, func(name string, _ int) bool { return !strings.HasPrefix(name, "microvm-") })
	return all
}

// noMachines reports what is left of microVMs on this host: processes and, if the cluster does not run, templates,
// the bridge and its rules.
func (c *cluster) noMachines() error {
	if p := c.machineProcesses(); len(p) > 0 {
		return fmt.Errorf("processes left: %v", p)
	}
	left, _ := filepath.Glob("/dev/shm/nodeless-*" + c.bridge()[2:])
	bridges, _ := filepath.Glob("/sys/class/net/" + c.bridge())
	firewall, _ := filepath.Glob(filepath.Join(c.dir, "microvms", "network.json"))
	if left = append(append(left, bridges...), firewall...); len(left) > 0 && c.cmd == nil {
		return fmt.Errorf("left: %v", left)
	}
	return nil
}

// nothingOfMicroVMs reports Nodes, NodeClaims, processes, state directories and taps that are left.
func (c *cluster) nothingOfMicroVMs() error {
	if err := c.nothingLeft(); err != nil {
		return err
	}
	for _, dir := range []string{"machines", "pods"} {
		if left, _ := filepath.Glob(filepath.Join(c.dir, "microvms", dir, "*")); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
	}
	if taps, _ := filepath.Glob("/sys/class/net/" + c.bridge() + "-*"); len(taps) > 0 {
		return fmt.Errorf("taps left: %v", taps)
	}
	return c.noMachines()
}

// bridge is the name of the microVMs' bridge, which is derived from their directory.
func (c *cluster) bridge() string {
	return fmt.Sprintf("nl%x", sha256.Sum256([]byte(filepath.Join(c.dir, "microvms"))))[:10]
}

// readyPods waits until n pods of the app are ready, and returns them.
func (c *cluster) readyPods(app string, n int) []corev1.Pod {
	c.t.Helper()
	var out []corev1.Pod
	c.eventually(patience, func() error {
		var list corev1.PodList
		if err := c.List(context.Background(), &list, client.InNamespace("default"),
			client.MatchingLabels{"app": app}); err != nil {
			return err
		}
		out = nil
		var not []string
		for i := range list.Items {
			p := &list.Items[i]
			if p.DeletionTimestamp == nil && condition(p, corev1.PodReady) {
				out = append(out, *p)
			} else {
				not = append(not, fmt.Sprintf("%s %s %s %v", p.Name, p.Status.Phase, p.Status.Message, p.Status.ContainerStatuses))
			}
		}
		if len(out) != n {
			return fmt.Errorf("%d pods are ready, want %d; others: %s", len(out), n, strings.Join(not, "; "))
		}
		return nil
	})
	return out
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// streaming starts a kubectl that keeps running, and returns its lines of output.
func (c *cluster) streaming(args ...string) *bufio.Scanner {
	c.t.Helper()
	cmd := exec.Command(binary, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	limit := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	c.t.Cleanup(func() {
		limit.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("kubectl %v said: %s", args, &said)
		}
	})
	return bufio.NewScanner(out)
}

// line returns the next line, which must match the pattern.
func (c *cluster) line(s *bufio.Scanner, pattern string) string {
	c.t.Helper()
	if !s.Scan() {
		c.t.Fatalf("the output ended: %v; want a line like %s", s.Err(), pattern)
	}
	if !regexp.MustCompile(pattern).MatchString(s.Text()) {
		c.t.Fatalf("got %q, want a line like %s", s.Text(), pattern)
	}
	return s.Text()
}

// The first example of pods that are their own node, as a newcomer meets it: three pods of a Deployment run in three
// microVMs, kubectl works with them as with any pod, and nothing is left when they are deleted.
func TestADeploymentRunsInMicroVMs(t *testing.T) {
	c := microVMs(t)
	first, second := newLogSink(t), newLogSink(t)
	c.routeLogs(first.output())
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	pods := c.readyPods("hello", 3)
	c.eventually(patience, first.hasAll(pods))
	c.kubectl("exec", pods[1].Name, "--", "sh", "-c", "for i in $(seq 3000); do echo burst $i; done >/proc/1/fd/1")
	c.eventually(patience, func() error { return first.hasBurst(pods[1].Name, 3000) })
	c.routeLogs(second.output()) // running pods pick this up, unlike on Fargate
	nodes := map[string]bool{}
	for i := range pods {
		nodes[pods[i].Spec.NodeName] = true
	}
	if n := len(c.microVMProcesses()); n != 3 || len(nodes) != 3 || len(c.nodes()) != 3 || len(c.claims()) != 3 {
		t.Errorf("%d processes, %d nodes of pods, %d Nodes, %d NodeClaims; want 3 of each", n, len(nodes), len(c.nodes()),
			len(c.claims()))
	}
	pod := pods[0].Name

	logs := c.streaming("logs", "-f", pod)
	c.line(logs, `^1 `+pod+`$`)
	c.line(logs, `^2 `+pod+`$`)
	c.line(logs, `^3 `+pod+`$`)
	if got := c.kubectl("logs", pod, "--tail=1"); strings.Count(got, "\n") != 1 {
		t.Errorf("logs --tail=1: %q", got)
	}

	if got := c.kubectl("exec", pod, "--", "cat", "/www/index.html"); got != "hello from "+pod+"\n" {
		t.Errorf("exec: %q", got)
	}
	if out, err := c.runIn("one two\n", "kubectl", "exec", "-i", pod, "--", "sh", "-c", "wc -w; exit 7"); err == nil ||
		!strings.Contains(out, "2\n") || !strings.Contains(out, "exit code 7") {
		t.Errorf("exec -i: %v %q", err, out)
	}
	// The terminal also echoes the command line, so the command spells the words differently.
	if got := c.onTerminal("until [ \"$(stty size)\" = '33 77' ]; do sleep 0.1; done; echo si''ze is right; exit\r",
		"exec", "-it", pod, "--", "sh"); !strings.Contains(got, "size is right") {
		t.Errorf("exec -it: %q", got)
	}
	c.line(c.streaming("attach", pod), `^\d+ `+pod+`$`)

	if os.Geteuid() == 0 { // without root, microVMs have no Services
		c.eventually(patience, func() error {
			ip := c.kubectl("get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}")
			out, err := c.run("kubectl", "exec", pod, "--", "sh", "-c",
				"nslookup hello.default.svc.cluster.local; wget -q -O - http://"+ip+"/")
			if err != nil || !strings.Contains(out, "Address: "+ip) || !strings.Contains(out, "hello from hello-") {
				return fmt.Errorf("the Service's name and its answer: %v\n%s", err, out)
			}
			return nil
		})
	}

	forward := c.line(c.streaming("port-forward", pod, ":8080"), `^Forwarding from 127\.0\.0\.1:\d+ -> 8080$`)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(forward)
	for range 3 {
		if got := get(t, "http://"+address+"/"); got != "hello from "+pod+"\n" {
			t.Errorf("port-forward: %q", got)
		}
	}

	c.eventually(patience, func() error {
		for _, what := range []string{"pods", "nodes"} {
			out, err := c.run("kubectl", "top", what, "--no-headers")
			if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || len(lines) != 3 ||
				strings.Contains(out, "<unknown>") {
				return fmt.Errorf("top %s: %v\n%s", what, err, out)
			}
		}
		return nil
	})

	c.opensTheGame()

	c.eventually(patience, second.hasAll(pods))
	c.kubectl("delete", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	c.eventually(patience, c.nothingOfMicroVMs)
	for i := range pods { // each line went to one of the two sinks, even the last one
		name := pods[i].Name
		if err := goodbye(append(first.linesOf(name), second.linesOf(name)...)); err != nil {
			t.Errorf("routed of %s: %v", name, err)
		}
	}
}

func get(t testing.TB, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Pods outlive the process: it is killed, and later stopped with Ctrl-C, while they run. Their uptime, their logs and
// everything else continue.
func TestMicroVMsOutliveTheProcess(t *testing.T) {
	c := microVMs(t)
	sink := newLogSink(t)
	c.routeLogs(sink.output())
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	c.kubectl("scale", "deployment", "hello", "--replicas", "2")
	before := c.readyPods("hello", 2)
	c.twoRun() // a third microVM, if it was created, is still in its grace period
	service := c.kubectl("get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}") + ":80"
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		c.stop(signal)
		if now := c.microVMProcesses(); len(now) != 2 {
			t.Fatalf("after %s these run: %v, before it two", signal, now)
		}
		if os.Geteuid() == 0 {
			if got, err := ask(service); err != nil || !strings.HasPrefix(got, "hello from ") {
				t.Errorf("after %s, while nobody is there, the Service says: %q, %v", signal, got, err)
			}
		}
		c.start()
		after := c.readyPods("hello", 2)
		for i := range after {
			p, was := &after[i], before[i]
			if p.UID != was.UID || p.Status.ContainerStatuses[0].RestartCount != 0 || p.Status.PodIP != was.Status.PodIP {
				t.Errorf("after %s: %s %s %+v, was %s %s", signal, p.Name, p.Status.PodIP, p.Status.ContainerStatuses, was.Name,
					was.Status.PodIP)
			}
			c.eventually(patience, func() error {
				return consecutive(c.run("kubectl", "logs", p.Name))
			})
			if got := c.kubectl("exec", p.Name, "--", "hostname"); got != p.Name+"\n" {
				t.Errorf("exec after %s: %q", signal, got)
			}
			stored := strings.Count(c.kubectl("logs", p.Name), "\n")
			c.eventually(patience, func() error { return sink.hasUpTo(p.Name, stored) })
		}
	}

	if out, err := c.run("down", "--now"); err != nil || !strings.Contains(out, "2 microVMs ended") {
		t.Fatalf("down: %v\n%s", err, out)
	}
	<-c.exit
	c.cmd = nil
	if err := c.noMachines(); err != nil {
		t.Error("after down:", err)
	}
	c.start() // the pods start anew, as after a restart of their nodes; until then the API shows their last known status
	c.twoRun()
	for i := range before {
		c.podWhen(before[i].Name, func(p *corev1.Pod) error {
			if s := p.Status.ContainerStatuses[0]; p.UID != before[i].UID || !s.Ready || s.RestartCount != 1 ||
				s.LastTerminationState.Terminated == nil {
				return fmt.Errorf("it was %s, and its container does not tell of the run before: %s %+v", before[i].UID, p.UID, s)
			}
			return nil
		})
	}
	c.kubectl("delete", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	c.eventually(patience, c.nothingOfMicroVMs)
}

// twoRun waits until there are two pod microVMs.
func (c *cluster) twoRun() {
	c.t.Helper()
	c.eventually(patience, func() error {
		if n := len(c.microVMProcesses()); n != 2 {
			return fmt.Errorf("%d processes, want 2", n)
		}
		return nil
	})
}

// consecutive checks the example's log: its lines are numbered, and each is there once.
func consecutive(log string, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %s", err, log)
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprintf("%d ", i+1)) {
			return fmt.Errorf("line %d is %q", i+1, line)
		}
	}
	if len(lines) < 3 {
		return fmt.Errorf("only %d lines", len(lines))
	}
	return nil
}
