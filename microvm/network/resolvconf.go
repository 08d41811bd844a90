package network

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/kubelet/envvars"

	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Resolve sets in network how a pod resolves names. It waits until the Services are known.
func (n *Net) Resolve(pod *corev1.Pod, network *wire.Network) {
	<-n.ready
	if n.dns == nil {
		return // Run has failed
	}
	c := n.resolvConf(pod)
	network.Nameservers, network.Searches, network.Options = c.Nameservers, c.Searches, c.Options
	network.Domain = podspec.HostDomain(pod, domain)
}

// resolvConf returns the content of a pod's resolv.conf.
func (n *Net) resolvConf(pod *corev1.Pod) podspec.ResolvConf {
	r := podspec.Resolver{Domain: domain, Host: hostResolvConf(n.o.ResolvConf, n.host)}
	if s := n.snapshot.Load().Find(kubeDNS); s != nil {
		for _, ip := range s.IPs {
			r.Cluster = append(r.Cluster, ip.String())
		}
	}
	if len(r.Cluster) == 0 && n.o.Joined { // the cluster has no DNS, or it has another name
		r.Cluster = []string{n.host.String()}
	}
	return r.ResolvConf(pod)
}

// hostResolvConf returns the content of the instance's own file, adapted to pods. Pods cannot reach a name server on
// loopback and have no IPv6: instead of such a server they query the cluster's DNS at the host's address, which
// forwards the query.
func hostResolvConf(file string, host netip.Addr) podspec.ResolvConf {
	config, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return podspec.ResolvConf{Nameservers: []string{host.String()}}
	}
	var c podspec.ResolvConf
	for _, s := range config.Servers {
		if a, err := netip.ParseAddr(s); err == nil && (a.IsLoopback() || !a.Is4()) {
			s = host.String()
		}
		if !slices.Contains(c.Nameservers, s) {
			c.Nameservers = append(c.Nameservers, s)
		}
	}
	if len(c.Nameservers) == 0 { // then it is the one on loopback: resolv.conf(5)
		c.Nameservers = []string{host.String()}
	}
	c.Searches = config.Search
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "options" {
			c.Options = append(c.Options, words[1:]...)
		}
	}
	return c
}

// Variables returns a pod's environment variables of Services, as NAME=value. It waits until the Services are known.
func (n *Net) Variables(pod *corev1.Pod) []string {
	<-n.ready
	all, _ := n.watch.Services.List(labels.Everything()) // a cache never fails
	return variables(pod, all)
}

// variables returns the variables of the API server and, unless the pod disables them, of the Services in its
// namespace (getServiceEnvVarMap in pkg/kubelet, Kubernetes 1.36).
func variables(pod *corev1.Pod, all []*corev1.Service) []string {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	byName := map[string]*corev1.Service{}
	for _, s := range all {
		switch {
		case s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone:
		case s.Namespace == pod.Namespace && links,
			s.Namespace == apiServer.Namespace && s.Name == apiServer.Name && byName[s.Name] == nil:
			byName[s.Name] = s
		}
	}
	list := slices.SortedFunc(maps.Values(byName),
		func(a, b *corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	var lines []string
	for _, v := range envvars.FromServices(list) {
		lines = append(lines, v.Name+"="+v.Value)
	}
	return lines
}

// dialTimeout is how long a connection may take to be established.
const dialTimeout = 10 * time.Second

// DialContext connects to an address from this instance. It resolves names with the cluster's DNS and, if that is not
// running or does not know the name, as the instance itself does.
func (n *Net) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	own := net.Dialer{Timeout: dialTimeout}
	select {
	case <-n.ready:
	default:
		return own.DialContext(ctx, network, address)
	}
	if n.dns == nil {
		return own.DialContext(ctx, network, address)
	}
	toDNS := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, n.dns.At().String())
	}
	d := net.Dialer{Timeout: dialTimeout, Resolver: &net.Resolver{PreferGo: true, Dial: toDNS}}
	conn, err := d.DialContext(ctx, network, address)
	var unknown *net.DNSError
	if errors.As(err, &unknown) {
		return own.DialContext(ctx, network, address)
	}
	return conn, err
}
