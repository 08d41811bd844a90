package clusterdns

import (
	"net/netip"
	"sort"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/microvm/network/services"
)

const objects = `
kind: Service
metadata: {namespace: shop, name: web}
spec: {clusterIP: 10.96.7.7, clusterIPs: [10.96.7.7, "fd00::7"], ports: [{name: http, port: 80, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]}
---
kind: EndpointSlice
metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [172.29.0.9]}]
---
kind: Service
metadata: {namespace: shop, name: db}
spec: {clusterIP: None, clusterIPs: [None], ports: [{name: sql, port: 5432, protocol: TCP}]}
---
kind: EndpointSlice
metadata: {namespace: shop, name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 5433, protocol: TCP}]
endpoints:
- {addresses: [172.29.0.4], hostname: db-0}
- {addresses: [172.29.0.5], hostname: db-1, conditions: {ready: false}}
- {addresses: [172.29.0.6]}
---
kind: EndpointSlice
metadata: {namespace: shop, name: db-2, labels: {kubernetes.io/service-name: db}}
addressType: IPv6
ports: [{name: sql, port: 5433, protocol: TCP}]
endpoints: [{addresses: ["fd00::4"], hostname: db-0}]
---
kind: Service
metadata: {namespace: shop, name: empty}
spec: {clusterIP: None, ports: [{port: 1}]}
---
kind: Service
metadata: {namespace: shop, name: out}
spec: {type: ExternalName, externalName: db.example.com}
`

func parse(t testing.TB, text string) *services.Snapshot {
	t.Helper()
	var all []*corev1.Service
	var slices []*discoveryv1.EndpointSlice
	for _, document := range strings.Split(text, "---\n") {
		var err error
		if strings.Contains(document, "kind: EndpointSlice") {
			s := &discoveryv1.EndpointSlice{}
			err, slices = yaml.UnmarshalStrict([]byte(document), s), append(slices, s)
		} else {
			s := &corev1.Service{}
			err, all = yaml.UnmarshalStrict([]byte(document), s), append(all, s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return services.New(all, slices)
}

var zone = Zone{
	Domain: "cluster.local.",
	Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("172.29.0.0/16")},
}

// answer returns what dig shows: the code, and the sorted records of the answer and additional sections.
func answer(t testing.TB, s *services.Snapshot, name string, kind uint16) string {
	t.Helper()
	a, ok := zone.Answer(s, dns.Question{Name: name, Qtype: kind, Qclass: dns.ClassINET})
	if !ok {
		return "elsewhere"
	}
	lines := func(records []dns.RR) string {
		var all []string
		for _, r := range records {
			all = append(all, strings.Join(strings.Fields(strings.Replace(r.String(), "5\tIN\t", "", 1)), " "))
		}
		sort.Strings(all)
		return strings.Join(all, "; ")
	}
	text := lines(a.Records)
	switch {
	case a.Code == dns.RcodeNameError:
		text = "no such name"
	case a.NoData:
		text = "nothing of the kind"
	case len(a.Extra) > 0:
		text += " + " + lines(a.Extra)
	}
	return text
}

// The specification's records (github.com/kubernetes/dns, specification 1.1.0), one by one.
func TestAnswers(t *testing.T) {
	s := parse(t, objects)
	for _, c := range []struct {
		name string
		kind uint16
		want string
	}{
		{"dns-version.cluster.local.", dns.TypeTXT, `dns-version.cluster.local. TXT "1.1.0"`},
		// A Service with addresses.
		{"web.shop.svc.cluster.local.", dns.TypeA, "web.shop.svc.cluster.local. A 10.96.7.7"},
		{"WEB.shop.Svc.cluster.LOCAL.", dns.TypeA, "WEB.shop.Svc.cluster.LOCAL. A 10.96.7.7"},
		{"web.shop.svc.cluster.local.", dns.TypeAAAA, "web.shop.svc.cluster.local. AAAA fd00::7"},
		{"web.shop.svc.cluster.local.", dns.TypeMX, "nothing of the kind"},
		{
			"_http._tcp.web.shop.svc.cluster.local.", dns.TypeSRV,
			"_http._tcp.web.shop.svc.cluster.local. SRV 0 100 80 web.shop.svc.cluster.local. + web.shop.svc.cluster.local. A 10.96.7.7; web.shop.svc.cluster.local. AAAA fd00::7",
		},
		{
			"_dns._udp.web.shop.svc.cluster.local.", dns.TypeSRV,
			"_dns._udp.web.shop.svc.cluster.local. SRV 0 100 53 web.shop.svc.cluster.local. + web.shop.svc.cluster.local. A 10.96.7.7; web.shop.svc.cluster.local. AAAA fd00::7",
		},
		{"_dns._tcp.web.shop.svc.cluster.local.", dns.TypeSRV, "no such name"},
		{"_tcp.web.shop.svc.cluster.local.", dns.TypeA, "nothing of the kind"},
		{"_sctp.web.shop.svc.cluster.local.", dns.TypeA, "no such name"},
		{"7.7.96.10.in-addr.arpa.", dns.TypePTR, "7.7.96.10.in-addr.arpa. PTR web.shop.svc.cluster.local."},
		{
			"7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR,
			"7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR web.shop.svc.cluster.local.",
		},
		// A headless Service: its name stands for its endpoints, and each endpoint with a host name has a name of its own.
		{
			"db.shop.svc.cluster.local.", dns.TypeA,
			"db.shop.svc.cluster.local. A 172.29.0.4; db.shop.svc.cluster.local. A 172.29.0.6",
		},
		{"db.shop.svc.cluster.local.", dns.TypeAAAA, "db.shop.svc.cluster.local. AAAA fd00::4"},
		{"db-0.db.shop.svc.cluster.local.", dns.TypeA, "db-0.db.shop.svc.cluster.local. A 172.29.0.4"},
		{"db-1.db.shop.svc.cluster.local.", dns.TypeA, "no such name"},
		{"172-29-0-6.db.shop.svc.cluster.local.", dns.TypeA, "172-29-0-6.db.shop.svc.cluster.local. A 172.29.0.6"},
		{
			"_sql._tcp.db.shop.svc.cluster.local.", dns.TypeSRV,
			"_sql._tcp.db.shop.svc.cluster.local. SRV 0 100 5433 172-29-0-6.db.shop.svc.cluster.local.; _sql._tcp.db.shop.svc.cluster.local. SRV 0 100 5433 db-0.db.shop.svc.cluster.local. + 172-29-0-6.db.shop.svc.cluster.local. A 172.29.0.6; db-0.db.shop.svc.cluster.local. A 172.29.0.4; db-0.db.shop.svc.cluster.local. AAAA fd00::4",
		},
		{"4.0.29.172.in-addr.arpa.", dns.TypePTR, "4.0.29.172.in-addr.arpa. PTR db-0.db.shop.svc.cluster.local."},
		{"empty.shop.svc.cluster.local.", dns.TypeA, "nothing of the kind"},
		// An ExternalName Service.
		{"out.shop.svc.cluster.local.", dns.TypeA, "out.shop.svc.cluster.local. CNAME db.example.com."},
		{"x.out.shop.svc.cluster.local.", dns.TypeA, "no such name"},
		// Pods.
		{"172-29-0-4.shop.pod.cluster.local.", dns.TypeA, "172-29-0-4.shop.pod.cluster.local. A 172.29.0.4"},
		{"fd00--4.shop.pod.cluster.local.", dns.TypeAAAA, "fd00--4.shop.pod.cluster.local. AAAA fd00::4"},
		{"a-b-c-d.shop.pod.cluster.local.", dns.TypeA, "no such name"},
		// Names that do not exist, and empty non-terminals.
		{"none.shop.svc.cluster.local.", dns.TypeA, "no such name"},
		{"web.none.svc.cluster.local.", dns.TypeA, "no such name"},
		{"a.b.c.web.shop.svc.cluster.local.", dns.TypeA, "no such name"},
		{"shop.svc.cluster.local.", dns.TypeA, "nothing of the kind"},
		{"none.svc.cluster.local.", dns.TypeA, "no such name"},
		{"svc.cluster.local.", dns.TypeA, "nothing of the kind"},
		{"other.cluster.local.", dns.TypeA, "no such name"},
		{"cluster.local.", dns.TypeNS, "cluster.local. NS ns.dns.cluster.local."},
		{"1.1.96.10.in-addr.arpa.", dns.TypePTR, "no such name"},
		// Names that other servers resolve.
		{"example.com.", dns.TypeA, "elsewhere"},
		{"notcluster.local.", dns.TypeA, "elsewhere"},
		{"1.2.0.192.in-addr.arpa.", dns.TypePTR, "elsewhere"},
		{"in-addr.arpa.", dns.TypeNS, "elsewhere"},
		{".", dns.TypeNS, "elsewhere"},
	} {
		if got := answer(t, s, c.name, c.kind); got != c.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", c.name, dns.TypeToString[c.kind], got, c.want)
		}
	}
}

// Every question has an answer that can be packed.
func FuzzAnswer(f *testing.F) {
	s := parse(f, objects)
	for _, name := range []string{
		"web.shop.svc.cluster.local.", "_http._tcp.db.shop.svc.cluster.local.",
		"4.0.29.172.in-addr.arpa.", "1-2-3-4.a.pod.cluster.local.", "..svc.cluster.local.", "f.f.ip6.arpa.",
	} {
		f.Add(name, dns.TypeA)
		f.Add(name, dns.TypeSRV)
	}
	f.Fuzz(func(t *testing.T, name string, kind uint16) {
		q := dns.Question{Name: dns.Fqdn(name), Qtype: kind, Qclass: dns.ClassINET}
		a, ok := zone.Answer(s, q)
		if _, valid := dns.IsDomainName(q.Name); !ok || !valid {
			return
		}
		m := &dns.Msg{Question: []dns.Question{q}, Answer: a.Records, Extra: a.Extra}
		if _, err := m.Pack(); err != nil && len(a.Records) > 0 {
			t.Errorf("%q: %v", q.Name, err)
		}
	})
}
