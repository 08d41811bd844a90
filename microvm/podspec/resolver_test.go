package podspec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/microvm/wire"
)

// The policies, one by one: what a kubelet writes into /etc/resolv.conf.
func TestResolvConfByPolicy(t *testing.T) {
	r := Resolver{Cluster: []string{"10.96.0.10"}, Domain: "cluster.local", Host: ResolvConf{
		Nameservers: []string{"192.0.2.53", "192.0.2.54"}, Searches: []string{"corp.example"},
		Options: []string{"edns0", "ndots:2"},
	}}
	const ofCluster = "[10.96.0.10] [shop.svc.cluster.local svc.cluster.local cluster.local corp.example] [ndots:5]"
	const ofMachine = "[192.0.2.53 192.0.2.54] [corp.example] [edns0 ndots:2]"
	for what, c := range map[string]struct{ spec, want string }{
		"nothing said":                   {`{}`, ofCluster},
		"ClusterFirst":                   {`{dnsPolicy: ClusterFirst}`, ofCluster},
		"ClusterFirst on the host's net": {`{dnsPolicy: ClusterFirst, hostNetwork: true}`, ofMachine},
		"ClusterFirstWithHostNet":        {`{dnsPolicy: ClusterFirstWithHostNet, hostNetwork: true}`, ofCluster},
		"Default":                        {`{dnsPolicy: Default}`, ofMachine},
		"None":                           {`{dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1], searches: [a.b], options: [{name: rotate}]}}`, "[1.1.1.1] [a.b] [rotate]"},
		"more than the policy gives": {
			`{dnsConfig: {nameservers: [1.1.1.1], searches: [a.b, cluster.local]}}`,
			"[10.96.0.10 1.1.1.1] [shop.svc.cluster.local svc.cluster.local cluster.local corp.example a.b] [ndots:5]",
		},
		"an option instead of the policy's": {
			`{dnsConfig: {options: [{name: ndots, value: "2"}, {name: use-vc}]}}`,
			"[10.96.0.10] [shop.svc.cluster.local svc.cluster.local cluster.local corp.example] [ndots:2 use-vc]",
		},
		"too many": {
			`{dnsPolicy: Default, dnsConfig: {nameservers: [1.1.1.1, 1.0.0.1]}}`,
			"[192.0.2.53 192.0.2.54 1.1.1.1] [corp.example] [edns0 ndots:2]",
		},
	} {
		pod := &corev1.Pod{}
		pod.Namespace = "shop"
		if err := yaml.UnmarshalStrict([]byte(c.spec), &pod.Spec); err != nil {
			t.Fatal(err)
		}
		if l := r.ResolvConf(pod); fmt.Sprint(l.Nameservers, l.Searches, l.Options) != c.want {
			t.Errorf("%s:\ngot  %v %v %v\nwant %s", what, l.Nameservers, l.Searches, l.Options, c.want)
		}
	}
	if l := r.ResolvConf(&corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}}); &l.Nameservers[0] == &r.Host.Nameservers[0] {
		t.Error("the machine's list was given away")
	}
}

func TestWithoutAClusterDNSTheMachinesIsAsked(t *testing.T) {
	r := Resolver{Domain: "cluster.local", Host: ResolvConf{Nameservers: []string{"192.0.2.53"}}}
	if l := r.ResolvConf(&corev1.Pod{}); fmt.Sprint(l.Nameservers, l.Searches, l.Options) != "[192.0.2.53] [] []" {
		t.Errorf("got %+v", l)
	}
}

func TestSearchListsAreBounded(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("%s%d.example", strings.Repeat("x", 80), i))
	}
	l := Resolver{}.ResolvConf(&corev1.Pod{Spec: corev1.PodSpec{
		DNSPolicy: corev1.DNSNone,
		DNSConfig: &corev1.PodDNSConfig{Searches: many},
	}})
	if n := len(l.Searches); n == 0 || n > maxSearches || len(strings.Join(l.Searches, " ")) > maxSearchChars {
		t.Errorf("%d searches of %d characters", n, len(strings.Join(l.Searches, " ")))
	}
}

func TestTheDomainOfAHostName(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Hostname: "db-0", Subdomain: "db"}}
	pod.Namespace = "shop"
	if got := HostDomain(pod, "cluster.local"); got != "db.shop.svc.cluster.local" {
		t.Error(got)
	}
	if got := HostDomain(&corev1.Pod{}, "cluster.local"); got != "" {
		t.Error(got)
	}
}

// With setHostnameAsFQDN, a pod's kernel, /etc/hostname and HOSTNAME have one name.
func TestTheHostNameWithItsDomain(t *testing.T) {
	for _, c := range []struct{ fqdn, domain, want string }{
		{"true", "db.shop.svc.cluster.local", "web.db.shop.svc.cluster.local"},
		{"false", "db.shop.svc.cluster.local", "web"},
		{"true", "", "web"},
	} {
		p := read(t, "metadata: {name: web}\nspec: {setHostnameAsFQDN: "+c.fqdn+", containers: [{name: c}]}")
		o := options(p)
		o.Network = wire.Network{Domain: c.domain, Nameservers: []string{"192.0.2.1"}}
		got, err := Spec(t.Context(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		if env := got.Containers[0].Env; got.KernelHostname() != c.want || !slices.Contains(env, "HOSTNAME="+c.want) ||
			got.Network.Nameservers[0] != "192.0.2.1" {
			t.Errorf("%+v: %s, %q", c, got.KernelHostname(), env)
		}
	}
}
