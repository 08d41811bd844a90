package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machine joins a cluster as a microVM host: a `nodeless host` with its own data directory and address.
type machine struct {
	c       *cluster
	name    string
	dir     string
	address string
	cable   *cable // nil: it shares this host's network
	cmd     *exec.Cmd
}

// joins registers a machine with the cluster and starts its host process. Process and microVMs end with the test. As
// root, the machine has a network of its own, from which it reaches the API server at a different address than this
// host does.
func (c *cluster) joins(name, loopback string, on *cable) *machine {
	c.t.Helper()
	m := &machine{c: c, name: name, dir: filepath.Join(c.t.TempDir(), name), address: loopback, cable: on}
	reach := []string{"--kubeconfig", c.Session.Kubeconfig}
	if on != nil {
		m.address = on.machine(name)
		reach = on.reach(c.Session.Kubeconfig)
	}
	image := exec.Command(filepath.Join(root, "examples", "fargate-image"), absolute(c.t, binary))
	image.Env = append(c.environment(), "NODELESS_DATA_DIR="+m.dir)
	if out, err := image.CombinedOutput(); err != nil {
		c.t.Fatalf("examples/fargate-image: %v\n%s", err, out)
	}
	join, err := c.run(append([]string{"host", "token", name}, reach...)...)
	if err != nil {
		c.t.Fatalf("host token: %v\n%s", err, join)
	}
	if err := os.WriteFile(m.joinFile(), []byte(join), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(m.clean)
	m.start("--join", m.joinFile())
	return m
}

func (m *machine) joinFile() string { return filepath.Join(m.dir, "join.kubeconfig") }

// start starts the host process and waits until the cluster lists it.
func (m *machine) start(args ...string) {
	m.c.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, "host.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.c.t.Fatal(err)
	}
	defer log.Close()
	command := append([]string{
		binary, "host", "--data-dir", m.dir, "--address", m.address, "--cpus", "1", "--memory",
		"1Gi",
	}, args...)
	m.cmd = exec.Command(command[0], command[1:]...)
	if m.cable != nil {
		m.cmd = m.cable.command(m.name, command...)
	}
	m.cmd.Env, m.cmd.Stdout, m.cmd.Stderr = m.c.environment(), log, log
	if err := m.cmd.Start(); err != nil {
		m.c.t.Fatal(err)
	}
	m.says("true", "")
}

// says waits until the cluster reports whether the host is ready, and why not.
func (m *machine) says(ready, why string) {
	m.c.t.Helper()
	m.c.eventually(patience, func() error {
		out, err := m.c.run("kubectl", "get", "microvmhost", "-n", "nodeless-host-"+m.name, m.name, "-o",
			"jsonpath={.status.ready}/{.status.message}")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if is, message, _ := strings.Cut(out, "/"); is != ready && is+ready != "false" || !strings.Contains(message, why) {
			return fmt.Errorf("host %s: ready %q, %q; want %q, %q", m.name, is, message, ready, why)
		}
		return nil
	})
}

// end ends the host process with a signal.
func (m *machine) end(sig syscall.Signal) {
	m.c.t.Helper()
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(sig)
	err := m.cmd.Wait()
	if sig != syscall.SIGKILL && err != nil {
		m.c.t.Errorf("host %s: %v", m.name, err)
	}
	m.cmd = nil
}

func (m *machine) clean() {
	m.end(syscall.SIGTERM)
	end := []string{binary, "host", "end", "--now", "--data-dir", m.dir}
	cmd := exec.Command(end[0], end[1:]...)
	if m.cable != nil {
		cmd = m.cable.command(m.name, end...)
	}
	cmd.Env = m.c.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		m.c.t.Errorf("host end: %v\n%s", err, out)
	}
	if m.cable != nil {
		m.nothingOfItsNetwork()
	}
	if n := m.vms(); n > 0 {
		m.c.t.Errorf("%d microVMs of host %s are left", n, m.name)
	}
	log, _ := os.ReadFile(filepath.Join(m.dir, "host.log"))
	if strings.Contains(string(log), "goroutine ") {
		m.c.t.Errorf("host %s printed the stack of a goroutine", m.name)
	}
	if m.c.t.Failed() {
		m.c.t.Logf("host %s:\n%s", m.name, log)
	}
}

// vms counts the pod microVMs on the machine.
func (m *machine) vms() int {
	n := 0
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if dir, err := os.Readlink(link); err == nil &&
			strings.HasPrefix(dir, filepath.Join(m.dir, "host", "microvms")+"/") &&
			strings.HasPrefix(filepath.Base(dir), "microvm-") {
			n++
		}
	}
	return n
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// onHosts counts pods by host; "" stands for pods whose Node does not exist.
func (c *cluster) onHosts(pods []corev1.Pod) map[string]int {
	c.t.Helper()
	out := map[string]int{}
	for i := range pods {
		node := &corev1.Node{}
		if err := client.IgnoreNotFound(c.Get(context.Background(), client.ObjectKey{Name: pods[i].Spec.NodeName},
			node)); err != nil {
			c.t.Fatal(err)
		}
		out[node.Labels["nodeless.sh/host"]]++
	}
	return out
}

// wantHostsOnThePage waits until the page shows these hosts with these statuses, and at least the given number of
// pods on them.
func (c *cluster) wantHostsOnThePage(want map[string]string, pods int) {
	c.t.Helper()
	page, _, _ := strings.Cut(c.Session.Page, "?")
	c.eventually(patience, func() error {
		_, _, text, err := c.fetch(page + "api/hosts")
		if err != nil {
			return err
		}
		var shown struct {
			Hosts []struct {
				Name, Status, PodCIDR string
				Capacity, Used        struct{ CPU, Pods int }
			}
		}
		if err := json.Unmarshal([]byte(text), &shown); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		got, used := map[string]string{}, 0
		for _, h := range shown.Hosts {
			got[h.Name], used = h.Status, used+h.Used.Pods
			if h.Capacity.CPU < 1000 || h.Used.CPU >= 1000 || h.PodCIDR == "" {
				return fmt.Errorf("host %s: %s", h.Name, text)
			}
		}
		if !maps.Equal(got, want) || used < pods {
			return fmt.Errorf("the page shows hosts %v with %d pods, want %v with %d: %s", got, used, want, pods, text)
		}
		return nil
	})
}

// A controller outside `nodeless up` runs pods on two machines that have joined with tokens. kubectl works as usual.
// A host process that is restarted takes over its microVMs. One that is killed and does not return loses its pods to
// the other, and removes what is left of them when it returns.
func TestPodsRunOnMachinesThatHaveJoined(t *testing.T) {
	needMicroVMs(t)
	c := up(t, "--controller=false", "--page", "127.0.0.1:0")
	port := freePort(t)
	c.replica("only", "--fargate-webhook", "https://127.0.0.1:"+port, "--fargate-webhook-port", port)
	var on *cable
	if os.Geteuid() == 0 {
		on = newCable(t)
	}
	one, two := c.joins("one", "127.3.0.1", on), c.joins("two", "127.3.0.2", on)
	c.eventually(patience, func() error { // the webhook must exist first, so that no pod goes elsewhere
		_, err := c.run("kubectl", "get", "mutatingwebhookconfiguration", "0500-nodeless-fargate-mutation")
		return err
	})
	sink := newLogSink(t)
	if on != nil {
		sink.at = on.forwards(sink.Listener.Addr().String())
	}
	c.routeLogs(sink.output())
	c.kubectl("apply", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	pods := c.readyPods("hello", 3)
	c.eventually(patience, sink.hasAll(pods)) // each host routes its pods' logs
	if spread := c.onHosts(pods); spread["one"]+spread["two"] != 3 || spread["one"] == 0 || spread["two"] == 0 {
		t.Errorf("pods by hosts: %v", spread)
	}
	if one.vms()+two.vms() != 3 {
		t.Errorf("%d and %d microVMs", one.vms(), two.vms())
	}
	for _, p := range pods {
		if got := c.kubectl("exec", p.Name, "--", "cat", "/www/index.html"); got != "hello from "+p.Name+"\n" {
			t.Errorf("exec: %q", got)
		}
		if got := c.kubectl("logs", p.Name); !strings.Contains(got, "1 "+p.Name) {
			t.Errorf("logs: %q", got)
		}
	}

	c.wantHostsOnThePage(map[string]string{"one": "Ready", "two": "Ready"}, 3)
	var network *between
	if on != nil {
		network = c.between(one, two, pods)
		network.works("at first", true)
	}
	two.end(syscall.SIGTERM)
	if network != nil {
		network.works("while a host process is away", two.kernelEncrypts())
	}
	two.start()
	if network != nil {
		network.works("when it is back", true)
	}
	for _, p := range c.readyPods("hello", 3) {
		if !contains(pods, &p) || p.Status.ContainerStatuses[0].RestartCount > 0 {
			t.Errorf("pod %s did not outlive the restart of its host's process", p.Name)
		}
	}

	two.end(syscall.SIGKILL)
	two.says("false", "nothing has been heard of it since")
	c.eventually(patience, func() error {
		if on := c.onHosts(c.readyPods("hello", 3)); on["one"] != 3 {
			return fmt.Errorf("pods by hosts: %v", on)
		}
		return nil
	})
	c.wantEvents("reason=NodeLost", "host two is lost: nothing has been heard of it")
	c.wantHostsOnThePage(map[string]string{"one": "Ready", "two": "NotReady"}, 3)
	two.start()
	c.eventually(patience, func() error {
		if n := two.vms(); n > 0 {
			return fmt.Errorf("%d microVMs that nobody wants any more run on the host that came back", n)
		}
		return nil
	})
	c.kubectl("delete", "-f", filepath.Join(root, "examples", "fargate.yaml"))
	c.eventually(patience, func() error {
		if n := one.vms() + two.vms(); n > 0 {
			return fmt.Errorf("%d microVMs are left", n)
		}
		return c.nothingLeft()
	})

	again := exec.Command(binary, "host", "--data-dir", filepath.Join(t.TempDir(), "other"), "--join", one.joinFile())
	again.Env = c.environment()
	var exit *exec.ExitError
	if out, err := again.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != 2 ||
		!strings.Contains(string(out), `make another one with "nodeless host token one"`) {
		t.Errorf("joining a second time with one token: %v\n%s", err, out)
	}
}

func contains(pods []corev1.Pod, p *corev1.Pod) bool {
	for i := range pods {
		if pods[i].UID == p.UID {
			return true
		}
	}
	return false
}
