// Package netlab gives each test its own network: the test runs in a network namespace, to which other machines are
// connected, each a process in its own namespace. Sockets, routes and the firewall are the kernel's. Without root and
// the ip command, such tests are skipped.
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
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Environment variables that give a process its role.
const (
	insideMark  = "NETLAB_INSIDE"
	machineMark = "NETLAB_MACHINE"
)

// Inside runs the calling test again in its own namespace, and reports whether this is that run. The outer run fails
// or is skipped like the inner one.
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
	switch ran := errors.As(err, new(*exec.ExitError)); {
	case err != nil && !ran:
		t.Skip("no network namespace can be made here:", err)
	case err != nil:
		t.Errorf("%s", out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s", out)
	}
	return false
}

// settle makes the new namespace usable: it mounts its /sys and brings the loopback interface up.
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

// Machine is a process in its own network namespace.
type Machine struct {
	Name string
	cmd  *exec.Cmd
	in   *json.Encoder
	out  *json.Decoder
}

// New starts a machine with an interface eth0, whose peer in the test's namespace is named link.
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
		_ = in.Close() // ends the process
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

// Main runs a machine if the process was started as one. Otherwise it returns at once.
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
			f = func([]string) (string, error) { return "", fmt.Errorf("there is no handler %s", c.Do) }
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

// Routed starts a machine that is connected like a microVM (sandbox.Bridge): by its own link, whose end in the test's
// namespace has the gateway's address. All other addresses are behind the gateway.
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
