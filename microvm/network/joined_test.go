package network

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/network/netlab"
)

// A joined host substitutes for the DNS and the API server when its pods reach none of the cluster's endpoints, and
// publishes nothing.
func TestAHostThatHasJoinedStandsIn(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	c := newCluster(t)
	c.options.Joined = true
	known := &knownPeers{
		synced: make(chan struct{}),
		list: []Peer{{
			Pods: netip.MustParsePrefix("10.202.32.0/20"), At: netip.MustParseAddrPort("192.0.2.7:8476"),
			Key: Key{1: 7}.PublicKey(),
		}},
	}
	close(known.synced)
	c.options.Peers, c.options.At = known, netip.MustParseAddrPort("192.0.2.1:8476")
	c.options.Key = Key{1: 1}
	c.options.Reached = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	_, stop := c.open(t)
	ctx := context.Background()
	eventually(t, "the API server", "ok", func() (string, error) { return c.second.Call("livez", "10.96.0.1:443", c.ca) })
	c.hasWay(t, "with the first process")
	stop()
	c.options.Peers = &knownPeers{synced: make(chan struct{})}
	next := New(c.options)
	ended, cancel := c.serve(t, next)
	c.hasWay(t, "while the next process does not know of other hosts yet")
	if next.snapshot.Load().Find(apiServer) != nil {
		t.Error("the next process takes the rules for complete")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.options.Peers = known
	n, stop := c.open(t)
	defer func() {
		stop()
		if err := n.close(); err != nil {
			t.Error(err)
		}
		c.nothingLeft(t)
		if _, err := net.InterfaceByName(bridge + "-x"); err == nil {
			t.Error("the tunnel is left")
		}
	}()
	c.hasWay(t, "with the last process")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}}
	if l := n.resolvConf(pod); !slices.Equal(l.Nameservers, []string{"10.202.16.1"}) {
		t.Errorf("name servers where the cluster has none: %v", l.Nameservers)
	}
	own, err := c.second.Call("resolve", "10.202.16.1:53", "kubernetes.default.svc.cluster.local.")
	if err != nil || own != "10.96.0.1" {
		t.Errorf("there: %q, %v", own, err)
	}
	if _, err := c.kube.CoreV1().Services("kube-system").Create(ctx, dnsService(netip.MustParseAddr("10.96.0.10")),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The EndpointSlice of another host's process is for the pods of that host.
	elsewhere := endpointSlice(kubeDNS, netip.MustParseAddrPort("10.202.240.1:53"),
		discoveryv1.EndpointPort{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolUDP)})
	if _, err := c.kube.DiscoveryV1().EndpointSlices(kubeDNS.Namespace).Create(ctx, elsewhere,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ask := func() (string, error) {
		return c.second.Call("resolve", "10.96.0.10:53", "kubernetes.default.svc.cluster.local.")
	}
	eventually(t, "the Service of the cluster's DNS", "10.96.0.1", ask)
	c.slice(t, "kube-system", "kube-dns", "192.0.2.7",
		discoveryv1.EndpointPort{Name: ptr.To("dns"), Port: ptr.To[int32](53), Protocol: ptr.To(corev1.ProtocolUDP)})
	eventually(t, "a DNS that runs elsewhere and is reached", "192.0.2.80", ask)
	slices, err := c.kube.DiscoveryV1().EndpointSlices("").List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + manager})
	if err != nil || len(slices.Items) != 1 {
		t.Errorf("slices of ours: %v, %v; want the one of the test", slices.Items, err)
	}
}

// knownPeers is a list of other hosts that may not be known yet.
type knownPeers struct {
	synced chan struct{}
	list   []Peer
}

func (p *knownPeers) List() []Peer             { return slices.Clone(p.list) }
func (p *knownPeers) Changed() <-chan struct{} { return nil }
func (p *knownPeers) Synced(ctx context.Context) bool {
	select {
	case <-p.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// hasWay fails the test unless there is a route to the other host.
func (c *cluster) hasWay(t *testing.T, when string) {
	t.Helper()
	out, err := exec.Command("ip", "route", "show", "10.202.32.0/20").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "dev "+bridge+"-x") {
		t.Errorf("%s: the way to another host: %q, %v", when, out, err)
	}
}

// serve opens the network and serves it until it is cancelled. It does not wait until all Services are programmed.
func (c *cluster) serve(t *testing.T, n *Net) (ended chan error, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if err := n.open(ctx); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- n.serve(ctx) }()
	if !n.watch.Synced(ctx) {
		t.Error("Services are not seen")
	}
	return ended, cancel
}

func TestPeersAreNearOrFar(t *testing.T) {
	at, prefix, addr := netip.MustParseAddrPort, netip.MustParsePrefix, netip.MustParseAddr
	near := []Peer{
		{Pods: prefix("10.202.16.0/20"), At: at("127.3.0.2:8476")},
		{Pods: prefix("10.202.32.0/20"), At: at("192.0.2.1:8477")},
	}
	far := Peer{Pods: prefix("10.202.48.0/20"), At: at("192.0.2.9:8476")}
	own := []netip.Addr{addr("192.0.2.1"), addr("10.202.16.1"), addr("10.202.32.1")}
	none := []Peer{
		{Pods: prefix("10.202.96.0/20"), At: at("127.0.0.1:8476")},
		{Pods: prefix("10.202.0.0/24"), At: at("192.0.2.10:8476")},
		{Pods: prefix("10.202.64.0/20"), At: at("[2001:db8::1]:8476")},
		{Pods: prefix("fd00::/64"), At: at("192.0.2.11:8476")},
		{Pods: prefix("10.202.80.0/20")},
	}
	all := slices.Concat([]Peer{far}, near, none)
	s := classify(slices.Clone(all), prefix("10.202.0.0/20"), at("192.0.2.1:8476"), own)
	if !slices.Equal(s.near, near) || !slices.Equal(s.far, []Peer{far}) {
		t.Errorf("%+v", s)
	}
	if s := classify(slices.Clone(all), prefix("10.202.0.0/20"), at("127.0.0.1:8476"), nil); len(s.far) > 0 {
		t.Errorf("who is on loopback is sent to by nobody else: %+v", s.far)
	}
}
