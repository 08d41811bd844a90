// Package netlab gives tests a network of their own: the test runs in a network namespace, and machines beside it are
// processes in namespaces that are connected with it. Sockets, routes and the firewall are the kernel's own. It needs
// root and the ip command; without them tests are skipped.
//
//	func TestMain(m *testing.M) { netlab.Main(); os.Exit(m.Run()) }
//
//	func TestSomething(t *testing.T) {
//		if !netlab.Inside(t) {
//			return
//		}
//		…
//	}
package netlab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Environment variables that tell a process what it is.
const (
	insideMark  = "NETLAB_INSIDE"
	machineMark = "NETLAB_MACHINE"
)

// Inside runs the calling test again, in a namespace of its own, and says whether this is that run. The outer run
// fails, or is skipped, as the inner one.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideMark) == t.Name() {
		settle(t)
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the ip command is not here (Debian: apt-get install iproute2):", err)
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.count=1"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), insideMark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	switch _, ran := err.(*exec.ExitError); {
	case err != nil && !ran:
		t.Skip("no network namespace can be made here:", err)
	case err != nil:
		t.Errorf("%s", out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s", out)
	}
	return false
}

// settle makes the new namespace usable: /sys shows its interfaces, and there is a loopback.
func settle(t *testing.T) {
	t.Helper()
	for _, m := range []struct {
		source, at, kind string
		flags            uintptr
	}{{"", "/", "", unix.MS_REC | unix.MS_PRIVATE}, {"sysfs", "/sys", "sysfs", 0}} {
		if err := unix.Mount(m.source, m.at, m.kind, m.flags, ""); err != nil {
			t.Fatalf("mount %s: %v", m.at, err)
		}
	}
	IP(t, "link", "set", "lo", "up")
}

// IP runs the ip command in the test's namespace.
func IP(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// Machine is a process in a namespace of its own.
type Machine struct {
	Name string
	cmd  *exec.Cmd
	in   *json.Encoder
	out  *json.Decoder
}

// New starts a machine with a network interface eth0. The other end of its cable is the interface link in the test's
// namespace.
func New(t *testing.T, name, link string) *Machine {
	t.Helper()
	m := &Machine{Name: name, cmd: exec.Command(os.Args[0])}
	m.cmd.Env = append(os.Environ(), machineMark+"="+name)
	m.cmd.Stderr = os.Stderr
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	in, err1 := m.cmd.StdinPipe()
	out, err2 := m.cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // its end
		_ = m.cmd.Wait()
	})
	m.in, m.out = json.NewEncoder(in), json.NewDecoder(out)
	IP(t, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(m.cmd.Process.Pid))
	IP(t, "link", "set", link, "up")
	m.IP(t, "link", "set", "lo", "up")
	m.IP(t, "link", "set", "eth0", "up")
	return m
}

// IP runs the ip command on the machine.
func (m *Machine) IP(t *testing.T, args ...string) {
	t.Helper()
	if _, err := m.Call("ip", args...); err != nil {
		t.Fatal(err)
	}
}

// Main is a machine's whole life in a process that was started as one, and returns in all others.
func Main() {
	if os.Getenv(machineMark) == "" {
		return
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c call
		if in.Decode(&c) != nil {
			os.Exit(0)
		}
		f, ok := handlers[c.Do]
		if !ok {
			f = func([]string) (string, error) { return "", fmt.Errorf("nobody knows how to %s", c.Do) }
		}
		text, err := f(c.Args)
		a := answer{Text: text}
		if err != nil {
			a.Error = err.Error()
		}
		if out.Encode(a) != nil {
			os.Exit(1)
		}
	}
}

// Routed makes a machine as a microVM is one (host.Routed): its address has 32 bits, it is on a link of its own with
// this machine, whose end of it is so named and has the gateway's address, and all but itself is behind the gateway.
func Routed(t *testing.T, name, link, gateway, address string) *Machine {
	t.Helper()
	m := New(t, name, link)
	IP(t, "addr", "add", gateway+"/32", "dev", link)
	IP(t, "route", "add", address, "dev", link)
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+link+"/forwarding", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.IP(t, "addr", "add", address+"/32", "dev", "eth0")
	m.IP(t, "route", "add", gateway, "dev", "eth0")
	m.IP(t, "route", "add", "default", "via", gateway)
	return m
}
