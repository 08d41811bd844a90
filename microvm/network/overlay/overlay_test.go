package overlay

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/network/netlab"
)

func TestMain(m *testing.M) {
	netlab.Handle("tunnel", tunnel)
	netlab.Handle("half a tunnel", halfATunnel)
	netlab.Main()
	os.Exit(m.Run())
}

// tunnel finds or opens a tunnel on a machine and syncs its peers. Arguments: pods, local address, then pods and
// address of each peer.
func tunnel(args []string) (string, error) {
	c := Config{
		Name: "nltest-x", Pods: netip.MustParsePrefix(args[0]), Local: netip.MustParseAddr(args[1]),
		Port: 8476, MTU: 1450,
	}
	var peers []Peer
	for i := 2; i < len(args); i += 2 {
		peers = append(peers, Peer{
			Pods: netip.MustParsePrefix(args[i]),
			At:   netip.AddrPortFrom(netip.MustParseAddr(args[i+1]), c.Port),
		})
	}
	t, err := Find(c)
	if err != nil {
		if t, err = Open(c); err != nil {
			return "", err
		}
	}
	return "", t.Sync(peers)
}

// halfATunnel leaves what a process leaves that is killed while it opens a tunnel.
func halfATunnel(args []string) (string, error) {
	c := Config{
		Name: "nltest-x", Pods: netip.MustParsePrefix(args[0]), Local: netip.MustParseAddr(args[1]),
		Port: 8476, MTU: 1450,
	}
	return "", c.create()
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

func TestHostsReachEachOthersPodsAndForgetThem(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	netlab.IP(t, "link", "add", "switch", "type", "bridge")
	netlab.IP(t, "link", "set", "switch", "up")
	a, b, c := host(t, "a", "192.0.2.1", "10.202.0.2"), host(t, "b", "192.0.2.2", "10.202.16.2"),
		host(t, "c", "192.0.2.3", "10.202.32.2")
	do := func(m *netlab.Machine, args ...string) {
		t.Helper()
		if _, err := m.Call("tunnel", args...); err != nil && strings.Contains(err.Error(), "not supported") {
			t.Skip("this kernel has no VXLAN:", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	do(a, "10.202.0.0/20", "192.0.2.1", "10.202.16.0/20", "192.0.2.2", "10.202.32.0/20", "192.0.2.3")
	do(b, "10.202.16.0/20", "192.0.2.2", "10.202.0.0/20", "192.0.2.1")
	do(c, "10.202.32.0/20", "192.0.2.3", "10.202.0.0/20", "192.0.2.1")
	for pod, want := range map[string]string{"10.202.16.2": "b saw 10.202.0.1", "10.202.32.2": "c saw 10.202.0.1"} {
		if got, err := a.Ask("tcp", pod+":8080"); err != nil || got != want {
			t.Errorf("a asks %s: %q, %v; want %q", pod, got, err, want)
		}
	}

	// A peer that has moved is found at its new address.
	c.IP(t, "addr", "del", "192.0.2.3/24", "dev", "eth0")
	c.IP(t, "addr", "add", "192.0.2.33/24", "dev", "eth0")
	c.IP(t, "link", "del", "nltest-x")
	do(c, "10.202.32.0/20", "192.0.2.33", "10.202.0.0/20", "192.0.2.1")
	do(a, "10.202.0.0/20", "192.0.2.1", "10.202.32.0/20", "192.0.2.33")
	if got, err := a.Ask("tcp", "10.202.32.2:8080"); err != nil || got != "c saw 10.202.0.1" {
		t.Errorf("a asks c, which has moved: %q, %v", got, err)
	}
	// A peer that is gone is removed.
	if got, err := a.Ask("tcp", "10.202.16.2:8080"); err == nil || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("a asks b, which it has forgotten: %q, %v; want that there is no way", got, err)
	}
	left, err := a.Call("ip", "neigh", "show", "dev", "nltest-x")
	if err != nil || strings.Contains(left, "10.202.16.1") || !strings.Contains(left, "10.202.32.1") {
		t.Errorf("neighbours: %q, %v", left, err)
	}
}

// A process can be killed between any two steps, and others administer the machine too: the next process repairs the
// tunnel.
func TestATunnelIsMadeWhole(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	netlab.IP(t, "link", "add", "switch", "type", "bridge")
	netlab.IP(t, "link", "set", "switch", "up")
	a, b := host(t, "a", "192.0.2.1", "10.202.0.2"), host(t, "b", "192.0.2.2", "10.202.16.2")
	toB := []string{"10.202.0.0/20", "192.0.2.1", "10.202.16.0/20", "192.0.2.2"}
	for _, do := range []func() (string, error){
		func() (string, error) {
			return b.Call("tunnel", "10.202.16.0/20", "192.0.2.2", "10.202.0.0/20", "192.0.2.1")
		},
		func() (string, error) { return a.Call("half a tunnel", toB...) },
		func() (string, error) { return a.Call("tunnel", toB...) },
	} {
		if _, err := do(); err != nil && strings.Contains(err.Error(), "not supported") {
			t.Skip("this kernel has no VXLAN:", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := a.Ask("tcp", "10.202.16.2:8080"); err != nil || got != "b saw 10.202.0.1" {
		t.Errorf("by a tunnel that was half-made: %q, %v", got, err)
	}
	a.IP(t, "link", "set", "nltest-x", "down")
	if _, err := a.Call("tunnel", toB...); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Ask("tcp", "10.202.16.2:8080"); err != nil || got != "b saw 10.202.0.1" {
		t.Errorf("by a tunnel that somebody has set down: %q, %v", got, err)
	}
}

// An error of the kernel is explained, and nothing is left behind.
func TestWhyThereIsNoTunnel(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	netlab.IP(t, "link", "add", "switch", "type", "bridge")
	c := host(t, "c", "192.0.2.3", "10.202.32.2")
	c.Listen(t, "udp", ":8476")
	_, err := c.Call("tunnel", "10.202.32.0/20", "192.0.2.3")
	if err != nil && strings.Contains(err.Error(), "not supported") {
		t.Skip("this kernel has no VXLAN:", err)
	}
	if err == nil || !strings.Contains(err.Error(),
		"UDP port 8476 is another program's; choose another one with --overlay-port") {
		t.Error("a port that is taken:", err)
	}
	if left, err := c.Call("ip", "link", "show", "type", "vxlan"); err != nil || left != "" {
		t.Errorf("left: %q, %v", left, err)
	}
	d := host(t, "d", "192.0.2.4", "10.202.48.2")
	d.IP(t, "link", "add", "other", "type", "vxlan", "id",
		fmt.Sprint(Identifier(netip.MustParsePrefix("10.202.48.0/20"))), "dstport", "8476")
	d.IP(t, "link", "set", "other", "up")
	if _, err := d.Call("tunnel", "10.202.48.0/20", "192.0.2.4"); err == nil ||
		!strings.Contains(err.Error(), "another VXLAN interface has UDP port 8476 and identifier 11313920") {
		t.Error("an identifier that is taken:", err)
	}
}

// Both ends use the identifier of the receiver's pods, so that a host with other addresses does not accept the packets.
func TestIdentifiersFollowFromAddresses(t *testing.T) {
	seen := map[uint32]netip.Prefix{}
	for second := range 256 {
		for third := range 256 {
			for _, fourth := range []byte{0, 16, 240} {
				p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(second), byte(third), fourth}), 28)
				if other, had := seen[Identifier(p)]; had {
					t.Fatalf("%s and %s have the same identifier", p, other)
				}
				seen[Identifier(p)] = p
			}
		}
	}
}
