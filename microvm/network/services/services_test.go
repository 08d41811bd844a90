package services

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	var o T
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

const web = `
metadata: {namespace: shop, name: web}
spec:
  clusterIP: 10.96.7.7
  clusterIPs: [10.96.7.7]
  ports: [{name: http, port: 80, protocol: TCP}, {name: metrics, port: 9090, protocol: TCP}]
`

// rolling is a slice as the EndpointSlice controller writes it during a rolling update.
const rolling = `
metadata: {namespace: shop, name: web-abc, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: metrics, port: 9100, protocol: TCP}]
endpoints:
- {addresses: [172.29.0.9], conditions: {ready: true, serving: true, terminating: false}, targetRef: {kind: Pod, name: c}}
- {addresses: [172.29.0.4], conditions: {ready: true}, targetRef: {kind: Pod, name: a}}
- {addresses: [172.29.0.5], conditions: {ready: false, serving: false}, targetRef: {kind: Pod, name: b}}
- {addresses: [172.29.0.6], conditions: {ready: false, serving: true, terminating: true}, targetRef: {kind: Pod, name: old}}
`

var anywhere = func(Endpoint) bool { return true }

func TestConnectionsGoToReadyEndpoints(t *testing.T) {
	s := New([]*corev1.Service{parse[corev1.Service](t, web)},
		[]*discoveryv1.EndpointSlice{parse[discoveryv1.EndpointSlice](t, rolling)})
	service := s.Find(Name{"shop", "web"})
	if service == nil || s.At(netip.MustParseAddr("10.96.7.7")) != service || !s.Namespace("shop") ||
		s.Namespace("default") {
		t.Fatalf("the Service is not found: %+v", s)
	}
	if got := fmt.Sprint(service.Targets(service.Ports[0], anywhere)); got != "[172.29.0.4:8080 172.29.0.9:8080]" {
		t.Error("http:", got)
	}
	if got := fmt.Sprint(service.Targets(service.Ports[1], anywhere)); got != "[172.29.0.4:9100 172.29.0.9:9100]" {
		t.Error("metrics:", got)
	}
}

func TestTheLastOnesServeUntilTheyAreGone(t *testing.T) {
	slice := parse[discoveryv1.EndpointSlice](t, rolling)
	slice.Endpoints = slice.Endpoints[2:]
	s := New([]*corev1.Service{parse[corev1.Service](t, web)}, []*discoveryv1.EndpointSlice{slice})
	if got := fmt.Sprint(s.All[0].Targets(s.All[0].Ports[0], anywhere)); got != "[172.29.0.6:8080]" {
		t.Error("targets:", got)
	}
}

// Several slices of a Service may name an endpoint twice, and an unreachable pod is not a target.
func TestEachTargetOnceAndOnlyWhereItIsReached(t *testing.T) {
	second := parse[discoveryv1.EndpointSlice](t, rolling)
	second.Name = "web-def"
	second.Endpoints[0].Addresses = []string{"10.0.3.4"}
	s := New([]*corev1.Service{parse[corev1.Service](t, web)},
		[]*discoveryv1.EndpointSlice{parse[discoveryv1.EndpointSlice](t, rolling), second})
	pods := netip.MustParsePrefix("172.29.0.0/16")
	got := s.All[0].Targets(s.All[0].Ports[0], func(e Endpoint) bool { return !e.Pod || pods.Contains(e.Address) })
	if fmt.Sprint(got) != "[172.29.0.4:8080 172.29.0.9:8080]" {
		t.Error("targets:", got)
	}
}

func TestServicesWithoutAnAddress(t *testing.T) {
	s := New([]*corev1.Service{
		parse[corev1.Service](t, "metadata: {namespace: a, name: db}\nspec: {clusterIP: None, clusterIPs: [None], ports: [{port: 5432}]}"),
		parse[corev1.Service](t, "metadata: {namespace: a, name: out}\nspec: {type: ExternalName, externalName: db.example.com.}"),
	}, nil)
	if db := s.Find(Name{"a", "db"}); !db.Headless() || db.Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("db: %+v", db)
	}
	if out := s.Find(Name{"a", "out"}); out.Headless() || out.ExternalName != "db.example.com" {
		t.Errorf("out: %+v", out)
	}
}
