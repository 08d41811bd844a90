package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/network/netlab"
	"github.com/nodeless/nodeless/microvm/network/ruleset"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) {
	netlab.Handle("resolve", resolve)
	netlab.Handle("names", func(args []string) (string, error) { return "", serveNames(args[0], args[1]) })
	netlab.Handle("livez", livez)
	netlab.Main()
	planetest.Main(m)
}

// resolve queries a name server (args[0]) for the address of a name (args[1]).
func resolve(args []string) (string, error) {
	reply, err := dns.Exchange(new(dns.Msg).SetQuestion(args[1], dns.TypeA), args[0])
	if err != nil {
		return "", err
	}
	for _, r := range reply.Answer {
		if a, ok := r.(*dns.A); ok {
			return a.A.String(), nil
		}
	}
	return "", fmt.Errorf("no address: %s", dns.RcodeToString[reply.Rcode])
}

// serveNames runs a name server that returns one address for every name.
func serveNames(at, address string) error {
	conn, err := net.ListenPacket("udp4", at)
	if err != nil {
		return err
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		reply := new(dns.Msg).SetReply(r)
		reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{
			Name: r.Question[0].Name, Rrtype: dns.TypeA,
			Class: dns.ClassINET,
		}, A: net.ParseIP(address)}}
		_ = w.WriteMsg(reply)
	})}
	go func() { _ = server.ActivateAndServe() }()
	return nil
}

// livez returns the response of /livez of the API server at an address (args[0]) to a pod that trusts its CA
// (args[1]).
func livez(args []string) (string, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(args[1]))
	c := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	reply, err := c.Get("https://" + args[0] + "/livez")
	if err != nil {
		return "", err
	}
	defer func() { _ = reply.Body.Close() }()
	b, err := io.ReadAll(reply.Body)
	return string(b), err
}

// cluster is a control plane, a network with two pods, and an outside machine that is also this host's name server.
type cluster struct {
	kube                   kubernetes.Interface
	ca                     string
	namespace              string
	options                Options
	first, second, outside *netlab.Machine
}

const bridge = "nl0123abcd"

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if err := ruleset.Available(); err != nil {
		t.Skip("no firewall can be programmed here:", err)
	}
	p := planetest.Start(t)
	kube, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		kube: kube, ca: string(p.CABundle()), namespace: planetest.Namespace(t, p),
		outside: netlab.New(t, "outside", "outside"),
	}
	netlab.IP(t, "addr", "add", "192.0.2.1/24", "dev", "outside")
	netlab.IP(t, "route", "add", "default", "via", "192.0.2.7")
	c.outside.IP(t, "addr", "add", "192.0.2.7/24", "dev", "eth0")
	c.outside.Listen(t, "tcp", ":7000")
	if _, err := c.outside.Call("names", ":53", "192.0.2.80"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := sandbox.NewBridge(bridge, netip.MustParsePrefix("10.202.16.0/20"))
	if err != nil {
		t.Skip("no bridge can be made here:", err)
	}
	c.first, c.second = pod(t, "a", "10.202.16.2"), pod(t, "b", "10.202.16.3")
	dir := t.TempDir()
	resolvConf := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(resolvConf, []byte("nameserver 192.0.2.7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(p.APIServerURL())
	if err != nil {
		t.Fatal(err)
	}
	c.options = Options{
		Dir: dir, Kube: kube, Bridge: b, Services: netip.MustParsePrefix(p.ServiceCIDR()), APIServer: server.Host,
		ResolvConf: resolvConf,
		Every:      100 * time.Millisecond,
	}
	return c
}

// pod starts a machine that is connected like a microVM (sandbox.Bridge).
func pod(t *testing.T, name, address string) *netlab.Machine {
	t.Helper()
	m := netlab.Routed(t, name, bridge+"-"+name, "10.202.16.1", address)
	m.Listen(t, "tcp", ":8080")
	return m
}

// open opens the network and serves it until stop is called. What it has created stays, as after a kill.
func (c *cluster) open(t *testing.T) (n *Net, stop func()) {
	t.Helper()
	n = New(c.options)
	if err := n.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.serve(ctx) }()
	select {
	case <-n.ready:
	case err := <-done:
		t.Fatal(err)
	}
	return n, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// service creates a Service with a pod as its endpoint.
func (c *cluster) service(t *testing.T, name, endpoint string) *corev1.Service {
	t.Helper()
	s := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	s.Name = name
	s, err := c.kube.CoreV1().Services(c.namespace).Create(context.Background(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.slice(t, c.namespace, name, endpoint,
		discoveryv1.EndpointPort{Name: ptr.To(""), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)})
	return s
}

func (c *cluster) slice(t *testing.T, namespace, service, endpoint string, port discoveryv1.EndpointPort) {
	t.Helper()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:   service + "-test",
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{port},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{endpoint},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "p"},
		}},
	}
	if _, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Create(context.Background(), s,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually repeats ask until it returns the wanted response.
func eventually(t *testing.T, what, want string, ask func() (string, error)) {
	t.Helper()
	planetest.Eventually(t, what, func(context.Context) error {
		if got, err := ask(); err != nil || got != want {
			return fmt.Errorf("%q, %v; want %q", got, err, want)
		}
		return nil
	})
}

func TestPodsReachServicesNamesTheAPIServerAndOutside(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	c := newCluster(t)
	n, stop := c.open(t)
	web := c.service(t, "web", "10.202.16.2")
	far := c.service(t, "far", "10.0.3.4") // a pod on a simulated node

	eventually(t, "a pod asks a Service", "a saw 10.202.16.3",
		func() (string, error) { return c.second.Ask("tcp", web.Spec.ClusterIP+":80") })
	eventually(t, "this machine asks a Service", "a saw 10.202.16.1",
		func() (string, error) { return netlab.Ask("tcp", web.Spec.ClusterIP+":80") })
	eventually(t, "the Service's name", web.Spec.ClusterIP, func() (string, error) {
		return c.second.Call("resolve", "10.96.0.10:53", "web."+c.namespace+".svc.cluster.local.")
	})
	eventually(t, "another's name", "192.0.2.80",
		func() (string, error) { return c.second.Call("resolve", "10.96.0.10:53", "www.example.com.") })
	eventually(t, "this machine resolves", web.Spec.ClusterIP, func() (string, error) {
		return resolve([]string{"10.96.0.10:53", "web." + c.namespace + ".svc.cluster.local."})
	})
	eventually(t, "the API server", "ok", func() (string, error) { return c.second.Call("livez", "10.96.0.1:443", c.ca) })
	eventually(t, "outside", "outside saw 192.0.2.1",
		func() (string, error) { return c.second.Ask("tcp", "192.0.2.7:7000") })
	if got, err := c.second.Ask("tcp", far.Spec.ClusterIP+":80"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a Service whose pods run nowhere: %q, %v; want a refusal", got, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}}
	if l := n.resolvConf(pod); fmt.Sprint(l.Nameservers, l.Searches,
		l.Options) != fmt.Sprintf("[10.96.0.10] [%s.svc.cluster.local svc.cluster.local cluster.local] [ndots:5]",
		c.namespace) {
		t.Errorf("resolv.conf of a pod: %+v", l)
	}
	if got := strings.Join(n.Variables(pod), " "); !strings.Contains(got, "KUBERNETES_SERVICE_HOST=10.96.0.1") ||
		!strings.Contains(got, "WEB_SERVICE_HOST="+web.Spec.ClusterIP) {
		t.Error("variables of a pod:", got)
	}
	if b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); string(b) != "0\n" {
		t.Errorf("the machine has become a router: %q", b)
	}

	stop()
	if err := n.close(); err != nil {
		t.Error(err)
	}
	c.nothingLeft(t)
	for namespace, name := range map[string]string{"default": "kubernetes-nodeless", "kube-system": "kube-dns-nodeless"} {
		if _, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Get(context.Background(), name,
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("EndpointSlice %s/%s is left: %v", namespace, name, err)
		}
	}
}

// nothingLeft fails the test unless this host is as it was.
func (c *cluster) nothingLeft(t *testing.T) {
	t.Helper()
	kernel, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	if tables, err := kernel.ListTables(); err != nil || len(tables) > 0 {
		t.Errorf("tables left: %v, %v", tables, err)
	}
	if b, _ := os.ReadFile("/proc/sys/net/ipv4/conf/outside/forwarding"); string(b) != "0\n" {
		t.Errorf("forwarding is left on: %q", b)
	}
	if _, err := os.Stat(stateFile(c.options.Dir)); !errors.Is(err, os.ErrNotExist) {
		t.Error("state is left:", err)
	}
}

// A DNS deployed in the cluster replaces ours as long as it responds.
func TestADeployedDNSIsAskedInsteadOfOurs(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	c := newCluster(t)
	n, stop := c.open(t)
	defer func() {
		stop()
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	ask := func() (string, error) {
		return c.second.Call("resolve", "10.96.0.10:53", "kubernetes.default.svc.cluster.local.")
	}
	eventually(t, "ours", "10.96.0.1", ask)
	if _, err := c.first.Call("names", ":8053", "192.0.2.99"); err != nil {
		t.Fatal(err)
	}
	c.slice(t, "kube-system", "kube-dns", "10.202.16.2",
		discoveryv1.EndpointPort{Name: ptr.To("dns"), Port: ptr.To[int32](8053), Protocol: ptr.To(corev1.ProtocolUDP)})
	eventually(t, "the deployed one", "192.0.2.99", ask)
	planetest.Eventually(t, "ours is not announced any more", func(ctx context.Context) error {
		if _, err := c.kube.DiscoveryV1().EndpointSlices("kube-system").Get(ctx, "kube-dns-nodeless",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	if err := c.kube.DiscoveryV1().EndpointSlices("kube-system").Delete(context.Background(), "kube-dns-test",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ours again", "10.96.0.1", ask)
}

// A killed process removes nothing: the next one takes over, or CleanUp removes it. A flushed firewall is programmed
// again.
func TestAfterAKill(t *testing.T) {
	if !netlab.Inside(t) {
		return
	}
	c := newCluster(t)
	_, stop := c.open(t)
	web := c.service(t, "web", "10.202.16.2")
	ask := func() (string, error) { return c.second.Ask("tcp", web.Spec.ClusterIP+":80") }
	eventually(t, "before", "a saw 10.202.16.3", ask)
	if err := ruleset.Remove(bridge); err != nil {
		t.Fatal(err)
	}
	eventually(t, "after somebody flushed the firewall", "a saw 10.202.16.3", ask)
	stop() // without close
	here := [][]string{{"10.202.16.1/20", bridge}, {"10.202.16.1/32", bridge + "-a"}, {"10.202.16.1/32", bridge + "-b"}}
	for _, a := range here {
		netlab.IP(t, "addr", "del", a[0], "dev", a[1])
	}
	if err := New(c.options).open(t.Context()); err == nil {
		t.Error("a name server listens at an address that this machine does not have")
	}
	for _, a := range here {
		netlab.IP(t, "addr", "add", a[0], "dev", a[1])
	}
	for _, to := range []string{"a", "b"} { // these routes were removed with the addresses
		netlab.IP(t, "route", "replace", map[string]string{"a": "10.202.16.2", "b": "10.202.16.3"}[to], "dev", bridge+"-"+to)
	}
	if got, err := ask(); err != nil || got != "a saw 10.202.16.3" {
		t.Errorf("while nobody is there, and after somebody who could not begin: %q, %v", got, err)
	}
	next := New(c.options)
	if err := next.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(); err != nil || got != "a saw 10.202.16.3" {
		t.Errorf("while the next process does not know of any Service yet: %q, %v", got, err)
	}
	if err := errors.Join(next.dns.Close(), next.api.Close()); err != nil {
		t.Error(err)
	}
	n, stop := c.open(t)
	eventually(t, "with the next process", "a saw 10.202.16.3", ask)
	stop()
	if err := CleanUp(c.options.Dir); err != nil {
		t.Error(err)
	}
	c.nothingLeft(t)
	if err := errors.Join(n.close(), CleanUp(c.options.Dir)); err != nil {
		t.Error("cleaning up again:", err)
	}
}
