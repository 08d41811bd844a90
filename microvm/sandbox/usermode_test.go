package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nodeless/nodeless/microvm/wire"
)

// greeting starts a listener that greets callers, and counts them.
func greeting(t *testing.T, address string) (port int, callers func() int) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	called := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			called <- struct{}{}
			_, _ = c.Write([]byte("hello\n"))
			_ = c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, func() int { return len(called) }
}

// outside returns a non-loopback address of this computer, "" if it has none.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() &&
			!defaultUserMode().prefix.Overlaps(p) {
			return p.Addr().String()
		}
	}
	return ""
}

// A VMM that root has started cannot read this computer's files, and yet its guest resolves names.
func TestGuestsInUserModeResolveNames(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a name server needs root")
	}
	server, err := net.ListenPacket("udp", "127.0.0.77:53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go answerNames(server, netip.MustParseAddr("192.0.2.7"))
	h := open(t, Config{Driver: driver(t)})
	c := container("main", "until nslookup name.example 2>&1 | grep -o 192.0.2.7; do sleep 0.5; done")
	vm := run(t, h, workload("names", wire.Pod{Containers: []wire.Container{c}}))
	// As if this computer had this name server.
	resolvers := filepath.Join(vm.dir, "etc", "resolv.conf")
	if own, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		if copied, err := os.ReadFile(resolvers); string(copied) != string(own) {
			t.Errorf("the VMM sees the name servers %q, %v", copied, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(resolvers), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(resolvers, []byte("nameserver 127.0.0.77\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, vm, "the pod ends", ended)
	if got := log(t, vm, logOptions{Container: "main"}); got != "192.0.2.7\n" {
		t.Errorf("the guest says %q", got)
	}
}

// answerNames answers all queries for IPv4 addresses with one, until the server is closed.
func answerNames(server net.PacketConn, with netip.Addr) {
	b := make([]byte, 512)
	for {
		n, from, err := server.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if m.Questions[0].Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: with.As4()},
			}}
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = server.WriteTo(answer, from)
		}
	}
}

// A pod without a network of its own, as on a host without root, does not reach what listens on the host's loopback:
// not through its gateway, its name server or any other address of its network, and not at loopback addresses that it
// sends out, as a pod with all rights can. It reaches other addresses.
func TestGuestsInUserModeDoNotReachLoopback(t *testing.T) {
	h := open(t, Config{Driver: driver(t)})
	inside, seen := greeting(t, "127.0.0.1")
	script := `try() { nc -w ${3:-5} "$1" "$2" </dev/null 2>/dev/null | grep -q hello && echo "reached $1" || echo "not $1"; }
gateway=$(ip route | sed -n 's/^default via \([0-9.]*\) .*/\1/p')
name=$(sed -n 's/^nameserver //p' /etc/resolv.conf)
echo "by $gateway, $name"
`
	script += "{ "
	for _, at := range []string{"$gateway", "$name", "10.0.2.77", "10.0.2.254"} {
		script += fmt.Sprintf("try %s %d & ", at, inside)
	}
	script += "wait; } | sort\n"
	// The guest's own loopback interface gives up its address, which is then routed out.
	script += fmt.Sprintf(`echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
ip addr del 127.0.0.1/8 dev lo; ip route add 127.0.0.0/8 via $gateway && echo "sends loopback out"
try 127.0.0.1 %d
`, inside)
	want := []string{
		"by 10.0.2.1, 10.0.2.2", "not 10.0.2.1", "not 10.0.2.2", "not 10.0.2.254", "not 10.0.2.77",
		"sends loopback out", "not 127.0.0.1",
	}
	if at := outside(t); at != "" {
		port, _ := greeting(t, at)
		script, want = script+fmt.Sprintf("try %s %d 60\n", at, port), append(want, "reached "+at)
	} else if os.Getenv("CI") != "" {
		t.Error("this computer has no address that a guest could reach")
	}
	c := container("main", script)
	c.Privileged = true
	vm := run(t, h, workload("user", wire.Pod{Containers: []wire.Container{c}}))
	await(t, vm, "the pod ends", ended)
	if got := strings.TrimSpace(log(t, vm, logOptions{Container: "main"})); got != strings.Join(want, "\n") {
		t.Errorf("the guest says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if n := seen(); n > 0 {
		t.Errorf("%d connections to a listener on loopback", n)
	}
}
