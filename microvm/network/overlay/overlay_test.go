package overlay

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/network/netlab"
)

func TestMain(m *testing.M) {
	netlab.Handle("tunnel", tunnel)
	netlab.Handle("half a tunnel", halfATunnel)
	netlab.Handle("leave", leave)
	netlab.Handle("keys", keys)
	netlab.Main()
	os.Exit(m.Run())
}

// open is the tunnel of a machine's process, nil before the first one.
var open *Tunnel

// tunnel opens or repairs a tunnel on a machine and syncs its peers. Arguments: its pods, then pods and address of each
// peer.
func tunnel(args []string) (_ string, err error) {
	c := config(args[0])
	if open == nil || open.Repair() != nil {
		if open, err = Open(c); err != nil {
			return "", err
		}
	}
	var peers []Peer
	for i := 1; i < len(args); i += 2 {
		pods := netip.MustParsePrefix(args[i])
		peers = append(peers, Peer{
			Pods: pods, At: netip.AddrPortFrom(netip.MustParseAddr(args[i+1]), c.Port), Key: key(pods).PublicKey(),
		})
	}
	return "", open.Sync(peers)
}

func config(pods string) Config {
	p := netip.MustParsePrefix(pods)
	return Config{Name: "nltest-x", Pods: p, Port: 8476, MTU: 1440, Key: key(p)}
}

func key(pods netip.Prefix) Key { return Key{1: 1 + pods.Addr().As4()[2]} }

// halfATunnel leaves behind what a process leaves that is killed while opening a tunnel.
func halfATunnel([]string) (string, error) { return "", createLink("nltest-x") }

// keys returns the public keys of the tunnel's peers.
func keys([]string) (string, error) {
	known, err := open.crypt.peers()
	return fmt.Sprint(known), err
}

// leave closes the tunnel, as at the end of a machine's process.
func leave([]string) (string, error) {
	defer func() { open = nil }()
	return "", open.Close()
}

// host starts a machine with a pod's address on its loopback interface.
func host(t *testing.T, name, address, pod string) *netlab.Machine {
	t.Helper()
	m := netlab.New(t, name, "to-"+name)
	netlab.IP(t, "link", "set", "to-"+name, "master", "switch")
	m.IP(t, "addr", "add", address+"/24", "dev", "eth0")
	m.IP(t, "addr", "add", pod+"/32", "dev", "lo")
	m.Listen(t, "tcp", ":8080")
	return m
}

// lab is a switch with hosts a and b.
func lab(t *testing.T) (a, b *netlab.Machine) {
	t.Helper()
	netlab.IP(t, "link", "add", "switch", "type", "bridge")
	netlab.IP(t, "link", "set", "switch", "up")
	return host(t, "a", "192.0.2.1", "10.202.0.2"), host(t, "b", "192.0.2.2", "10.202.16.2")
}

// do calls a handler of this file and fails the test if it fails.
func do(t *testing.T, m *netlab.Machine, what string, args ...string) {
	t.Helper()
	if _, err := m.Call(what, args...); err != nil {
		t.Fatal(err)
	}
}

func asks(t *testing.T, m *netlab.Machine, what, at, want string) {
	t.Helper()
	if got, err := m.Ask("tcp", at+":8080"); err != nil || got != want {
		t.Errorf("%s: %q, %v; want %q", what, got, err, want)
	}
}

func TestHostsReachEachOthersPodsAndForgetThem(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	a, b := lab(t)
	c := host(t, "c", "192.0.2.3", "10.202.32.2")
	do(t, a, "tunnel", "10.202.0.0/20", "10.202.16.0/20", "192.0.2.2", "10.202.32.0/20", "192.0.2.3")
	do(t, b, "tunnel", "10.202.16.0/20", "10.202.0.0/20", "192.0.2.1")
	do(t, c, "tunnel", "10.202.32.0/20", "10.202.0.0/20", "192.0.2.1")
	asks(t, a, "a asks b", "10.202.16.2", "b saw 10.202.0.1")
	asks(t, a, "a asks c", "10.202.32.2", "c saw 10.202.0.1")

	// A peer that has moved is found where it was last heard, and at its new address once that is known.
	c.IP(t, "addr", "del", "192.0.2.3/24", "dev", "eth0")
	c.IP(t, "addr", "add", "192.0.2.33/24", "dev", "eth0")
	asks(t, c, "c has moved and asks a", "10.202.0.2", "a saw 10.202.32.1")
	do(t, a, "tunnel", "10.202.0.0/20", "10.202.32.0/20", "192.0.2.3")
	asks(t, a, "a asks c, which it has heard elsewhere", "10.202.32.2", "c saw 10.202.0.1")
	do(t, a, "tunnel", "10.202.0.0/20", "10.202.32.0/20", "192.0.2.33")
	asks(t, a, "a asks c, which has moved", "10.202.32.2", "c saw 10.202.0.1")
	// A peer that has left is removed.
	if got, err := a.Ask("tcp", "10.202.16.2:8080"); err == nil || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("a asks b, which it has forgotten: %q, %v; want that there is no way", got, err)
	}
	want := fmt.Sprint([]Key{key(netip.MustParsePrefix("10.202.32.0/20")).PublicKey()})
	if keys, err := a.Call("keys"); err != nil || keys != want {
		t.Errorf("a knows the keys %s, %v; want that of c, %s", keys, err, want)
	}
}

// Packets between hosts cannot be read on the way, and a host can only send for its own pods.
func TestPacketsAreEncryptedAndSigned(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	a, b := lab(t)
	c := host(t, "c", "192.0.2.3", "10.202.32.2")
	do(t, a, "tunnel", "10.202.0.0/20", "10.202.16.0/20", "192.0.2.2")
	do(t, b, "tunnel", "10.202.16.0/20", "10.202.0.0/20", "192.0.2.1")
	seen := tap(t, "to-b")
	asks(t, a, "a asks b", "10.202.16.2", "b saw 10.202.0.1")
	if packets := seen(); !strings.Contains(packets, "\x04\x00\x00\x00") { // the type of a data packet
		t.Error("no packet of the tunnel was seen on the way")
	} else if strings.Contains(packets, "b saw") {
		t.Error("an answer was read on the way")
	}

	// c, a host like the others, sends to b as a pod of its own and as one of a's.
	c.IP(t, "addr", "add", "10.202.0.2/32", "dev", "lo")
	do(t, b, "hear", ":5353")
	do(t, b, "tunnel", "10.202.16.0/20", "10.202.0.0/20", "192.0.2.1", "10.202.32.0/20", "192.0.2.3")
	do(t, c, "tunnel", "10.202.32.0/20", "10.202.16.0/20", "192.0.2.2")
	for _, from := range []string{"10.202.0.2", "10.202.32.2"} {
		do(t, c, "say", from, "10.202.16.2:5353", "from "+from)
	}
	if got, err := b.Call("heard", ":5353"); err != nil || got != "from 10.202.32.2" {
		t.Errorf("b was told first: %q, %v", got, err)
	}
}

// tap starts capturing the packets of an interface. The returned function stops the capture and returns all packets.
func tap(t *testing.T, name string) func() string {
	t.Helper()
	link, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		defer func() { _ = unix.Close(fd) }()
		var packets strings.Builder
		for b := make([]byte, 2048); ; {
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				return packets.String()
			}
			packets.Write(b[:n])
		}
	}
}

// A process can be killed between any two steps, and others administer the machine, too: the next process repairs the
// tunnel.
func TestATunnelIsMadeWhole(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	a, b := lab(t)
	toB := []string{"10.202.0.0/20", "10.202.16.0/20", "192.0.2.2"}
	do(t, b, "tunnel", "10.202.16.0/20", "10.202.0.0/20", "192.0.2.1")
	do(t, a, "half a tunnel")
	do(t, a, "tunnel", toB...)
	asks(t, a, "by a tunnel that was half-made", "10.202.16.2", "b saw 10.202.0.1")
	a.IP(t, "link", "set", "nltest-x", "down")
	do(t, a, "tunnel", toB...)
	asks(t, a, "by a tunnel that somebody has set down", "10.202.16.2", "b saw 10.202.0.1")
	a.IP(t, "link", "del", "nltest-x")
	do(t, a, "tunnel", toB...)
	asks(t, a, "by a tunnel that somebody has removed", "10.202.16.2", "b saw 10.202.0.1")
	do(t, a, "leave")
	if way, err := a.Call("ip", "route", "get", "10.202.16.2"); err != nil || !strings.Contains(way, "nltest-x") {
		t.Errorf("while no process serves it, the way to b is %q, %v", way, err)
	}
	do(t, a, "tunnel", toB...)
	asks(t, a, "by a tunnel that an earlier process has made", "10.202.16.2", "b saw 10.202.0.1")
	do(t, a, "leave")
	a.IP(t, "link", "del", "nltest-x")
	a.IP(t, "link", "add", "nltest-x", "type", "vxlan", "id", "7", "dstport", "8476")
	do(t, a, "tunnel", toB...)
	asks(t, a, "in place of the tunnel of an earlier release", "10.202.16.2", "b saw 10.202.0.1")
}

// A kernel error is explained, and nothing is left behind.
func TestWhyThereIsNoTunnel(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	a, _ := lab(t)
	a.Listen(t, "udp", ":8476")
	if _, err := a.Call("tunnel", "10.202.0.0/20"); err == nil || !strings.Contains(err.Error(),
		"UDP port 8476 is another program's; choose another one with --overlay-port") {
		t.Error("a port that is taken:", err)
	}
	if left, err := a.Call("ip", "link", "show", "nltest-x"); err == nil {
		t.Errorf("left: %q", left)
	}
}

func TestAHostKeepsItsKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	first, err := LoadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := LoadKey(dir); err != nil || again != first || first == (Key{}) {
		t.Errorf("again: %v, the same: %v", err, again == first)
	}
	file := filepath.Join(dir, "overlay.key")
	if s, err := os.Stat(file); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("who may read it: %v, %v", s, err)
	}
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(dir); err == nil || !strings.Contains(err.Error(), file) ||
		!strings.Contains(err.Error(), "remove it, and the host makes a new key") {
		t.Error("a damaged file:", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if other, err := LoadKey(dir); err != nil || other == first {
		t.Errorf("after its file was removed: %v, the same: %v", err, other == first)
	}
}
