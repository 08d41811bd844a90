package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ResolvConf is the content of a resolv.conf(5).
type ResolvConf struct{ Nameservers, Searches, Options []string }

// Resolver determines how pods resolve names.
type Resolver struct {
	// Cluster are the name servers of the cluster's Domain. Without any, every pod uses the host's.
	Cluster []string
	Domain  string // without a trailing dot
	// Host are the host's own lines.
	Host ResolvConf
}

// Kubernetes' limits (k8s.io/kubernetes/pkg/apis/core/validation).
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// ResolvConf returns a pod's lines according to its dnsPolicy and dnsConfig, as a kubelet does
// (pkg/kubelet/network/dns, Kubernetes 1.36).
func (r Resolver) ResolvConf(pod *corev1.Pod) ResolvConf {
	var l ResolvConf
	switch {
	case pod.Spec.DNSPolicy == corev1.DNSNone:
	case len(r.Cluster) > 0 && asksCluster(pod):
		l.Nameservers, l.Options = slices.Clone(r.Cluster), []string{"ndots:5"}
		l.Searches = append([]string{pod.Namespace + ".svc." + r.Domain, "svc." + r.Domain, r.Domain}, r.Host.Searches...)
	default:
		l = ResolvConf{slices.Clone(r.Host.Nameservers), slices.Clone(r.Host.Searches), slices.Clone(r.Host.Options)}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		l.Nameservers, l.Searches = append(l.Nameservers, c.Nameservers...), append(l.Searches, c.Searches...)
		for _, o := range c.Options {
			line := o.Name
			if o.Value != nil {
				line += ":" + *o.Value
			}
			// The pod's own option wins.
			l.Options = append(slices.DeleteFunc(l.Options, func(had string) bool { return optionName(had) == o.Name }), line)
		}
	}
	l.Nameservers, l.Searches = unique(l.Nameservers), unique(l.Searches)
	l.Nameservers = l.Nameservers[:min(len(l.Nameservers), maxNameservers)]
	l.Searches = l.Searches[:min(len(l.Searches), maxSearches)]
	for len(strings.Join(l.Searches, " ")) > maxSearchChars {
		l.Searches = l.Searches[:len(l.Searches)-1]
	}
	return l
}

// asksCluster reports whether the pod uses the cluster's DNS. A pod in the host's network must request it explicitly.
func asksCluster(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSClusterFirstWithHostNet:
		return true
	case corev1.DNSClusterFirst, "":
		return !pod.Spec.HostNetwork
	}
	return false
}

func optionName(line string) string {
	name, _, _ := strings.Cut(line, ":")
	return name
}

// unique returns the list without repetitions.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// HostDomain returns the domain of a pod's host name: that of its subdomain, which names a headless Service; "" if it
// has none.
func HostDomain(pod *corev1.Pod, domain string) string {
	if pod.Spec.Subdomain == "" || domain == "" || pod.Spec.HostnameOverride != nil {
		return ""
	}
	return pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + domain
}
