package stories

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// cable is a network of machines: each is a network namespace with one interface, connected to a common switch. This
// host has the first address there.
type cable struct {
	t      *testing.T
	name   string
	subnet string // its first three bytes
	n      int
}

// newCable needs root.
func newCable(t *testing.T) *cable {
	t.Helper()
	c := &cable{t: t, name: fmt.Sprintf("c%d", os.Getpid()), subnet: fmt.Sprintf("198.18.%d", os.Getpid()%250)}
	c.namespace("switch")
	c.in("switch", "ip", "link", "add", "br0", "type", "bridge")
	c.in("switch", "ip", "link", "set", "br0", "up")
	c.plug("", "me")
	return c
}

// namespace creates a network namespace that is deleted when the test ends.
func (c *cable) namespace(name string) {
	c.t.Helper()
	c.in("", "ip", "netns", "add", c.of(name))
	c.t.Cleanup(func() { c.in("", "ip", "netns", "del", c.of(name)) })
}

func (c *cable) of(name string) string { return c.name + "-" + name }

// plug connects a namespace, or this host's own if "", to the switch, and returns its address.
func (c *cable) plug(namespace, link string) string {
	c.t.Helper()
	c.n++
	here, there := fmt.Sprintf("%s-%s", c.name, link), fmt.Sprintf("p%d", c.n)
	address := fmt.Sprintf("%s.%d", c.subnet, c.n)
	c.in("", "ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", c.of("switch"))
	if namespace == "" {
		c.t.Cleanup(func() { _ = exec.Command("ip", "link", "del", here).Run() })
	} else {
		c.in("", "ip", "link", "set", here, "netns", c.of(namespace))
	}
	c.in(namespace, "ip", "addr", "add", address+"/24", "dev", here)
	c.in(namespace, "ip", "link", "set", here, "up")
	c.in("switch", "ip", "link", "set", there, "master", "br0", "up")
	return address
}

// machine creates a namespace with an address.
func (c *cable) machine(name string) string {
	c.t.Helper()
	c.namespace(name)
	c.in(name, "ip", "link", "set", "lo", "up")
	c.in(name, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")
	return c.plug(name, name)
}

// in runs a command in a namespace.
func (c *cable) in(namespace string, command ...string) string {
	c.t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	if namespace != "" {
		cmd = c.command(namespace, command...)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %s: %v: %s", namespace, strings.Join(command, " "), err, out)
	}
	return string(out)
}

// command returns a command that runs in a namespace and differs only in its network.
func (c *cable) command(namespace string, command ...string) *exec.Cmd {
	return exec.Command("nsenter",
		append([]string{"--net=" + filepath.Join("/run/netns", c.of(namespace))}, command...)...)
}

// forwards forwards connections from a port of this host's address on the cable to another address, and returns the
// former.
func (c *cable) forwards(to string) string {
	c.t.Helper()
	l, err := net.Listen("tcp", c.subnet+".1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go pass(from, to)
		}
	}()
	return l.Addr().String()
}

func pass(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// reach returns the options of "nodeless host token" for a machine on the cable: the API server's certificate does
// not cover its address there.
func (c *cable) reach(kubeconfig string) []string {
	c.t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	cluster := cfg.Clusters[cfg.Contexts[cfg.CurrentContext].Cluster]
	server := "https://" + c.forwards(strings.TrimPrefix(cluster.Server, "https://"))
	cluster.TLSServerName = "kubernetes"
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		c.t.Fatal(err)
	}
	return []string{"--kubeconfig", file, "--server", server}
}

// between is a pod on one host that sends requests to one on another, through a Service of its own.
type between struct {
	c        *cluster
	one, two *machine
	asker    string
	answer   string
	at       string // the address of the pod that responds
	nodePort string
}

// between needs pods of the example on both hosts.
func (c *cluster) between(one, two *machine, pods []corev1.Pod) *between {
	c.t.Helper()
	b := &between{c: c, one: one, two: two}
	for i := range pods {
		p := &pods[i]
		if on := c.onHosts(pods[i : i+1]); on[one.name] > 0 {
			b.asker = p.Name
		} else {
			b.answer, b.at = p.Name, p.Status.PodIP
		}
	}
	c.kubectl("label", "pod", b.answer, "far=yes")
	c.kubectl("create", "service", "nodeport", "far", "--tcp=80:8080")
	c.kubectl("patch", "service", "far", "-p", `{"spec":{"selector":{"app":null,"far":"yes"}}}`)
	b.nodePort = c.kubectl("get", "service", "far", "-o", "jsonpath={.spec.ports[0].nodePort}")
	return b
}

// works checks that the pod on the first host reaches the one on the second, at its address and by the Service's
// name, and that this machine, which is outside, reaches it at the Service's node port on each host. While the tunnel
// between them is down, only the pod's own host reaches it.
func (b *between) works(when string, tunnel bool) {
	b.c.t.Helper()
	want := "hello from " + b.answer + "\n"
	urls, machines := []string{"http://" + b.at + ":8080/", "http://far/"}, []*machine{b.one, b.two}
	if !tunnel {
		urls, machines = nil, machines[1:]
	}
	b.c.eventually(patience, func() error {
		for _, url := range urls {
			if out, err := b.c.run("kubectl", "exec", b.asker, "--", "wget", "-q", "-O", "-", url); err != nil || out != want {
				return fmt.Errorf("%s: the pod %s asks %s: %v: %q, want %q", when, b.asker, url, err, out, want)
			}
		}
		for _, m := range machines {
			if out, err := ask(m.address + ":" + b.nodePort); err != nil || out != want {
				return fmt.Errorf("%s: outside asks host %s: %v: %q, want %q", when, m.name, err, out, want)
			}
		}
		return nil
	})
}

// kernelEncrypts reports whether the tunnel to other hosts works without the host process.
func (m *machine) kernelEncrypts() bool {
	return m.cable.in(m.name, "ip", "-o", "link", "show", "type", "wireguard") != ""
}

// nothingOfItsNetwork reports what a host has left behind in its namespace.
func (m *machine) nothingOfItsNetwork() {
	m.c.t.Helper()
	if left := m.cable.in(m.name, "ip", "-o", "link"); strings.Contains(left, ": nl") {
		m.c.t.Errorf("interfaces of host %s are left: %s", m.name, left)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "host", "microvms", "network.json")); !os.IsNotExist(err) {
		m.c.t.Errorf("the firewall of host %s is left: %v", m.name, err)
	}
	if forwarding := m.cable.in(m.name, "cat",
		"/proc/sys/net/ipv4/conf/"+m.cable.of(m.name)+"/forwarding"); forwarding != "0\n" {
		m.c.t.Errorf("host %s still forwards: %q", m.name, forwarding)
	}
}

// ask returns the response of an HTTP server at an address of the cable.
func ask(address string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	return body, err
}
