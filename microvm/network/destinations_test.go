package network

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// Of three pods behind a Service, one is on this host, one on another host, and one on a simulated node, where
// nothing responds.
func TestWhichEndpointsCount(t *testing.T) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	for what, c := range map[string]struct {
		spec               corev1.ServiceSpec
		cluster, nodePorts string
	}{
		"all that are reached": {
			corev1.ServiceSpec{},
			"[10.202.0.2:8080 10.202.16.2:8080]",
			"[10.202.0.2:8080 10.202.16.2:8080]",
		},
		"from outside, local ones": {
			corev1.ServiceSpec{ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal},
			"[10.202.0.2:8080 10.202.16.2:8080]", "[10.202.0.2:8080]",
		},
		"from pods, local ones": {
			corev1.ServiceSpec{InternalTrafficPolicy: &local},
			"[10.202.0.2:8080]",
			"[10.202.0.2:8080 10.202.16.2:8080]",
		},
		"with another port's names": {corev1.ServiceSpec{Ports: []corev1.ServicePort{{
			Name: "other", Port: 80,
			NodePort: 30080,
		}}}, "[]", "[]"},
	} {
		c.spec.ClusterIPs = []string{"10.96.0.7"}
		if c.spec.Ports == nil {
			c.spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}}
		}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			Ports:      []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}},
		}
		for _, a := range []string{"10.202.0.2", "10.202.16.2", "10.0.3.4"} {
			slice.Endpoints = append(slice.Endpoints,
				discoveryv1.Endpoint{Addresses: []string{a}, TargetRef: &corev1.ObjectReference{Kind: "Pod"}})
		}
		s := services.New([]*corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       c.spec,
		}}, []*discoveryv1.EndpointSlice{slice})
		here, everywhere := netip.MustParsePrefix("10.202.0.0/20").Contains, netip.MustParsePrefix("10.202.0.0/16").Contains
		to, ports := serviceDestinations(s, netip.MustParsePrefix("10.96.0.0/16"), everywhere, here)
		if len(to) != 1 || len(ports) != 1 || ports[0].Name != "node-port/tcp/30080" ||
			fmt.Sprint(to[0].To) != c.cluster || fmt.Sprint(ports[0].To) != c.nodePorts {
			t.Errorf("%s: %+v, %+v", what, to, ports)
		}
	}
}

// The cluster's DNS is the built-in one as long as no other endpoint of its Service responds: coredns on a simulated
// node is Ready but does not respond.
func TestWhoIsTheClustersDNS(t *testing.T) {
	pod := &corev1.ObjectReference{Kind: "Pod"}
	endpoint := func(address string, target *corev1.ObjectReference) []discoveryv1.Endpoint {
		return []discoveryv1.Endpoint{{Addresses: []string{address}, TargetRef: target}}
	}
	own := endpointSlice(kubeDNS, netip.MustParseAddrPort("10.202.0.1:53"))
	for what, c := range map[string]struct {
		endpoints []discoveryv1.Endpoint
		others    bool
	}{
		"nobody":                       {nil, false},
		"a pod in a microVM":           {endpoint("10.202.0.2", pod), true},
		"a pod on a simulated node":    {endpoint("10.0.3.4", pod), false},
		"an address written by hand":   {endpoint("192.0.2.7", nil), true},
		"a name, which is no endpoint": {endpoint("dns.example.com", nil), false},
		"a pod that is not ready there": {[]discoveryv1.Endpoint{{
			Addresses: []string{"10.202.0.2"}, TargetRef: pod,
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)},
		}}, false},
	} {
		theirs := &discoveryv1.EndpointSlice{Endpoints: c.endpoints}
		if got := othersReady([]*discoveryv1.EndpointSlice{own, theirs},
			netip.MustParsePrefix("10.202.0.0/16").Contains); got != c.others {
			t.Errorf("%s: somebody else is the DNS: %t, want %t", what, got, c.others)
		}
	}
}
