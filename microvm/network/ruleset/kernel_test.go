package ruleset

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"

	"github.com/nodeless/nodeless/microvm/network/netlab"
	"github.com/nodeless/nodeless/microvm/network/overlay"
)

func TestMain(m *testing.M) {
	netlab.Handle("tunnel", elsewhere)
	netlab.Main()
	os.Exit(m.Run())
}

// lab is this machine with two pods behind a bridge, and a machine outside.
type lab struct{ first, second, outside *netlab.Machine }

func build(t *testing.T) lab {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip("no firewall can be programmed here:", err)
	}
	netlab.IP(t, "link", "add", "nl-test", "type", "bridge")
	netlab.IP(t, "addr", "add", "172.29.0.1/16", "dev", "nl-test")
	netlab.IP(t, "link", "set", "nl-test", "up")
	netlab.IP(t, "route", "add", "10.96.0.0/16", "dev", "nl-test")
	l := lab{pod(t, "first", "172.29.0.2"), pod(t, "second", "172.29.0.3"), netlab.New(t, "outside", "outside")}
	netlab.IP(t, "addr", "add", "192.0.2.1/24", "dev", "outside")
	l.outside.IP(t, "addr", "add", "192.0.2.7/24", "dev", "eth0")
	l.outside.IP(t, "route", "add", "172.29.0.0/16", "via", "192.0.2.1") // so that it can try to reach the pods
	l.outside.IP(t, "addr", "add", "169.254.169.254/32", "dev", "lo")
	netlab.IP(t, "route", "add", "169.254.0.0/16", "via", "192.0.2.7")
	for _, name := range []string{"nl-test", "outside"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/forwarding", []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// pod starts a machine that is connected like a microVM.
func pod(t *testing.T, name, address string) *netlab.Machine {
	t.Helper()
	m := netlab.Routed(t, name, "nl-test-"+name, "172.29.0.1", address)
	m.Listen(t, "tcp", ":8080")
	m.Listen(t, "udp", ":8053")
	return m
}

// expect checks a response.
func expect(t *testing.T, what string, got string, err error, want string) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: %q, %v; want %q", what, got, err, want)
	}
}

// refused fails the test unless the connection was refused.
func refused(t *testing.T, what string, got string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%s: %q, %v; want a refusal", what, got, err)
	}
}

func TestPacketsInTheKernel(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	l := build(t)
	l.outside.Listen(t, "tcp", ":5432")
	l.outside.Listen(t, "tcp", "169.254.169.254:80")
	c := example()
	c.Opened = []string{"outside"}
	c.between()
	c.Destinations[1].To = c.Destinations[1].To[:2]
	at := netip.MustParseAddrPort
	c.Destinations = append(c.Destinations,
		Destination{
			Name: "service/default/names/udp/53", At: at("10.96.0.52:53"), Protocol: UDP,
			To: []netip.AddrPort{at("172.29.0.3:8053")},
		},
		Destination{
			Name: "service/default/self/tcp/80", At: at("10.96.0.53:80"), Protocol: TCP,
			To: []netip.AddrPort{at("172.29.0.2:8080")},
		},
		Destination{
			Name: "service/default/outside/tcp/80", At: at("10.96.0.54:80"), Protocol: TCP,
			To: []netip.AddrPort{at("192.0.2.7:5432")},
		})
	c.NodePorts = []Destination{
		{Name: "node-port/tcp/30080", At: at("0.0.0.0:30080"), Protocol: TCP, To: []netip.AddrPort{at("172.29.0.2:8080")}},
		{Name: "node-port/udp/30053", At: at("0.0.0.0:30053"), Protocol: UDP, To: []netip.AddrPort{at("172.29.0.3:8053")}},
	}
	c.Public = true
	if err := New(c).Program(); err != nil {
		t.Fatal(err)
	}

	got, err := l.first.Ask("tcp", "172.29.0.3:8080")
	expect(t, "a pod asks a pod", got, err, "second saw 172.29.0.2")
	got, err = l.first.Ask("tcp", "192.0.2.7:5432")
	expect(t, "a pod asks outside, which sees the machine", got, err, "outside saw 192.0.2.1")
	got, err = l.first.Ask("udp", "10.96.0.52:53")
	expect(t, "a pod asks a Service over UDP", got, err, "second saw 172.29.0.2")
	got, err = l.first.Ask("tcp", "10.96.0.53:80")
	expect(t, "a pod asks itself by a Service", got, err, "first saw 172.29.0.1")
	got, err = l.second.Ask("tcp", "10.96.0.53:80")
	expect(t, "a Service shows the endpoint who asks", got, err, "first saw 172.29.0.3")
	got, err = l.first.Ask("tcp", "10.96.0.54:80")
	expect(t, "a Service whose endpoint is outside", got, err, "outside saw 192.0.2.1")
	got, err = netlab.Ask("tcp", "10.96.0.53:80")
	expect(t, "the machine itself asks a Service", got, err, "first saw 172.29.0.1")

	got, err = l.outside.Ask("tcp", "192.0.2.1:30080")
	expect(t, "outside asks a NodePort, and is seen", got, err, "first saw 192.0.2.7")
	got, err = l.outside.Ask("udp", "192.0.2.1:30053")
	expect(t, "outside asks a NodePort over UDP", got, err, "second saw 192.0.2.7")
	got, err = l.second.Ask("tcp", "192.0.2.1:30080")
	expect(t, "a pod asks a NodePort", got, err, "first saw 172.29.0.3")
	got, err = l.first.Ask("tcp", "172.29.0.1:30080")
	expect(t, "a pod asks itself by a NodePort", got, err, "first saw 172.29.0.1")
	got, err = netlab.Ask("tcp", "192.0.2.1:30080")
	expect(t, "the machine itself asks a NodePort", got, err, "first saw 192.0.2.1")

	got, err = l.first.Ask("tcp", "10.96.0.9:80")
	refused(t, "a Service without endpoints", got, err)
	// The first pod has used up its share of ICMP: redirects count towards the kernel's limit although none was sent.
	got, err = l.second.Ask("udp", "10.96.0.53:80")
	refused(t, "another protocol than the Service's", got, err)
	got, err = netlab.Ask("tcp", "10.96.0.9:80")
	refused(t, "the machine itself asks a Service without endpoints", got, err)
	got, err = l.first.Ask("tcp", "169.254.169.254:80")
	refused(t, "a pod asks for the machine's credentials", got, err)
	got, err = l.outside.Ask("tcp", "172.29.0.2:8080")
	refused(t, "outside asks a pod", got, err)
	c.Public = false
	if err := New(c).Program(); err != nil {
		t.Fatal(err)
	}
	got, err = l.outside.Ask("tcp", "192.0.2.1:30080")
	refused(t, "outside asks a NodePort that is not for everybody", got, err)
	got, err = netlab.Ask("tcp", "192.0.2.1:30080")
	expect(t, "the machine itself still asks it", got, err, "first saw 192.0.2.1")
	got, err = l.outside.Ask("tcp", "172.29.0.1:53")
	refused(t, "outside asks the machine at its address among the pods", got, err)
}

// A pod cannot spoof another pod, however loose the kernel's own filter is.
func TestPodsSpeakForThemselvesAlone(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	l := build(t)
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("2"), 0o644); err != nil { // like Ubuntu
		t.Fatal(err)
	}
	c := example()
	c.between()
	c.Opened = []string{"outside"}
	if err := New(c).Program(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.second.Call("hear", ":5353"); err != nil {
		t.Fatal(err)
	}
	l.first.IP(t, "addr", "add", "172.29.0.9/32", "dev", "lo") // not its own address
	for _, from := range []string{"172.29.0.9", "172.29.0.2"} {
		if _, err := l.first.Call("say", from, "172.29.0.3:5353", "from "+from); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.second.Call("heard", ":5353"); err != nil || got != "from 172.29.0.2" {
		t.Errorf("a pod was told first: %q, %v", got, err)
	}
}

// Packets from the tunnel are accepted from other hosts' pods and for pods only: not from spoofed addresses, and not
// for other listeners on this host.
func TestWhatComesByTheTunnel(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	l := build(t)
	here, there := netip.MustParsePrefix("172.29.0.0/16"), netip.MustParsePrefix("172.31.0.0/16")
	if err := openTunnel(here, "192.0.2.7", overlay.Key{1: 1}, overlay.Key{1: 2}, there); err != nil {
		t.Fatal(err)
	}
	l.outside.IP(t, "route", "del", "172.29.0.0/16")
	if _, err := l.outside.Call("tunnel", there.String(), "192.0.2.1", here.String(), "203.0.113.1/32"); err != nil {
		t.Fatal(err)
	}
	netlab.IP(t, "addr", "add", "203.0.113.1/32", "dev", "lo") // this host's address on another network
	for _, address := range []string{"172.31.0.2/32", "172.31.0.3/32", "198.51.100.9/32"} {
		l.outside.IP(t, "addr", "add", address, "dev", "lo")
	}
	l.outside.Listen(t, "tcp", "172.31.0.2:8080")
	listener, err := net.Listen("tcp4", ":9000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	c := example()
	c.Tunnel = "nl-test-x"
	if err := New(c).Program(); err != nil {
		t.Fatal(err)
	}
	got, err := l.first.Ask("tcp", "172.31.0.2:8080")
	expect(t, "a pod asks a pod elsewhere", got, err, "outside saw 172.29.0.2")
	got, err = netlab.Ask("tcp", "172.31.0.2:8080")
	expect(t, "the machine asks a pod elsewhere", got, err, "outside saw 172.29.0.1")
	got, err = l.outside.Ask("tcp", "172.29.0.2:8080")
	expect(t, "another host asks a pod", got, err, "first saw 172.31.0.1")
	got, err = l.outside.Ask("tcp", "203.0.113.1:9000")
	refused(t, "another host asks the machine at an address it has elsewhere", got, err)
	if _, err := l.second.Call("hear", ":5353"); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"198.51.100.9", "172.31.0.3"} {
		if _, err := l.outside.Call("say", from, "172.29.0.3:5353", "from "+from); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.second.Call("heard", ":5353"); err != nil || got != "from 172.31.0.3" {
		t.Errorf("a pod was told first: %q, %v", got, err)
	}
}

// elsewhere opens a tunnel on another machine. Arguments: its pods, this host's address, and the prefixes reachable
// here.
func elsewhere(args []string) (string, error) {
	var reached []netip.Prefix
	for _, text := range args[2:] {
		reached = append(reached, netip.MustParsePrefix(text))
	}
	return "", openTunnel(netip.MustParsePrefix(args[0]), args[1], overlay.Key{1: 2}, overlay.Key{1: 1}, reached...)
}

// openTunnel opens a tunnel for pods to the prefixes reachable at another machine.
func openTunnel(pods netip.Prefix, at string, own, peer overlay.Key, reached ...netip.Prefix) error {
	t, err := overlay.Open(overlay.Config{Name: "nl-test-x", Pods: pods, Port: 8476, MTU: 1440, Key: own})
	if err != nil {
		return err
	}
	var peers []overlay.Peer
	for _, p := range reached {
		peers = append(peers, overlay.Peer{
			Pods: p, At: netip.AddrPortFrom(netip.MustParseAddr(at), 8476), Key: peer.PublicKey(),
		})
	}
	return t.Sync(peers)
}

func TestOneOfSeveralEndpointsAnswers(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	l := build(t)
	c := example()
	c.Destinations[1].To = c.Destinations[1].To[:2]
	if err := New(c).Program(); err != nil {
		t.Fatal(err)
	}
	answers := map[string]bool{}
	for range 100 { // the probability that only one endpoint responds is below 10^-29
		got, err := netlab.Ask("tcp", "10.96.0.50:80")
		if err != nil {
			t.Fatal(err)
		}
		answers[got] = true
	}
	if len(answers) != 2 {
		t.Errorf("by chance: %v", answers)
	}
	clear(answers)
	for range 20 {
		got, err := l.first.Ask("tcp", "10.96.0.51:80")
		if err != nil {
			t.Fatal(err)
		}
		answers[got] = true
	}
	if len(answers) != 1 {
		t.Errorf("always the same: %v", answers)
	}
}

// Other tables stay; ours is replaced, and removed at the end.
func TestOthersRulesStay(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	build(t)
	kernel, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	policy := nftables.ChainPolicyDrop
	other := kernel.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "other"})
	kernel.AddChain(&nftables.Chain{
		Name: "forward", Table: other, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &policy,
	})
	if err := kernel.Flush(); err != nil {
		t.Fatal(err)
	}
	many := example()
	for i := range 2000 { // more than fit into one message or the default socket buffers
		ip := netip.AddrFrom4([4]byte{10, 96, byte(10 + i/250), byte(1 + i%250)})
		many.Destinations = append(many.Destinations, Destination{
			Name: fmt.Sprintf("service/default/a-service-with-a-rather-long-name-%d/tcp/80", i),
			At:   netip.AddrPortFrom(ip, 80), Protocol: TCP,
			To: []netip.AddrPort{netip.MustParseAddrPort("172.29.0.2:8080"), netip.MustParseAddrPort("172.29.0.3:8080")},
		})
	}
	for _, c := range []Config{many, example()} {
		if err := New(c).Program(); err != nil {
			t.Fatal(err)
		}
		if !Exists(c.Table) {
			t.Error("there is no table")
		}
	}
	chains, err := kernel.ListChains()
	if want := 7 + 4 + 1; err != nil || len(chains) != want {
		t.Errorf("%d chains, want %d: %v", len(chains), want, err)
	}
	if foreign, err := OthersDropping("nl-test"); err != nil || strings.Join(foreign, ",") != "other forward" {
		t.Errorf("in the way: %v, %v", foreign, err)
	}
	for range 2 { // the second time there is nothing left
		if err := Remove("nl-test"); err != nil {
			t.Error(err)
		}
	}
	tables, err := kernel.ListTables()
	if err != nil || len(tables) != 1 || tables[0].Name != "other" {
		t.Errorf("left: %v, %v", tables, err)
	}
}
