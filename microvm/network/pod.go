package network

import (
	"cmp"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/kubelet/envvars"

	"github.com/nodeless/nodeless/microvm/network/services"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/wire"
)

// lines are those of a pod's resolv.conf.
func (n *Net) lines(pod *corev1.Pod) podspec.Lines {
	r := podspec.Resolver{Domain: n.o.Domain, Host: machineLines(n.o.ResolvConf, n.machine)}
	if s := n.snapshot.Load().Find(services.Name{Namespace: dnsNamespace, Name: dnsName}); s != nil {
		for _, ip := range s.IPs {
			r.Cluster = append(r.Cluster, ip.String())
		}
	}
	if len(r.Cluster) == 0 && n.o.Joined { // the cluster has no DNS, or it has another name
		r.Cluster = []string{n.machine.String()}
	}
	return r.Of(pod)
}

// machineLines are the machine's own, for pods. A name server on loopback is the machine's alone: where there is one,
// a pod asks the machine at its address among the pods, where the cluster's DNS passes the question on.
func machineLines(file string, machine netip.Addr) podspec.Lines {
	config, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return podspec.Lines{Nameservers: []string{machine.String()}}
	}
	var l podspec.Lines
	for _, s := range config.Servers {
		if a, err := netip.ParseAddr(s); err == nil && (a.IsLoopback() || !a.Is4()) { // a pod has no IPv6
			s = machine.String()
		}
		if !slices.Contains(l.Nameservers, s) {
			l.Nameservers = append(l.Nameservers, s)
		}
	}
	if len(l.Nameservers) == 0 { // then it is loopback's, says resolv.conf(5)
		l.Nameservers = []string{machine.String()}
	}
	l.Searches, l.Options = config.Search, options(file)
	return l
}

// options of a resolv.conf, as they are.
func options(file string) []string {
	b, _ := os.ReadFile(file)
	var all []string
	for _, line := range strings.Split(string(b), "\n") {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "options" {
			all = append(all, words[1:]...)
		}
	}
	return all
}

// Resolve tells a guest how its pod resolves names. It waits until Services are known.
func (n *Net) Resolve(pod *corev1.Pod, told *wire.Network) {
	<-n.ready
	if n.dns == nil {
		return // there is no network
	}
	l := n.lines(pod)
	told.Nameservers, told.Searches, told.Options, told.Domain = l.Nameservers, l.Searches, l.Options,
		podspec.HostDomain(pod, n.o.Domain)
}

// Variables are those that tell a pod of Services, as NAME=value. It waits until Services are known.
func (n *Net) Variables(pod *corev1.Pod) []string {
	<-n.ready
	all, _ := n.watch.Services.List(labels.Everything()) // a cache does not fail
	return variables(pod, all)
}

// variables are those that tell a pod of Services: of the API server's always, of its namespace's unless it does not
// want them (a kubelet's getServiceEnvVarMap).
func variables(pod *corev1.Pod, all []*corev1.Service) []string {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	told := map[string]*corev1.Service{}
	for _, s := range all {
		switch {
		case s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone:
		case s.Namespace == pod.Namespace && links:
			told[s.Name] = s
		case s.Namespace == apiNamespace && s.Name == apiName && told[s.Name] == nil:
			told[s.Name] = s
		}
	}
	var list []*corev1.Service
	for _, s := range told {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	var lines []string
	for _, v := range envvars.FromServices(list) {
		lines = append(lines, v.Name+"="+v.Value)
	}
	return lines
}
