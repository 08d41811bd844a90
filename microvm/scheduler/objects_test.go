package scheduler

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// The pod is bound right after its Node is created. A taint with effect NoExecute, even one that is removed a moment
// later, would make Kubernetes' taint eviction delete the pod (ADR 11).
func TestANewNodeEvictsNobody(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Labels: map[string]string{labelPod: string(types.UID("u"))},
		Annotations: map[string]string{annotationPod: "shop/web"},
	}}
	node := newNode(claim, microvm.Description{Name: "h1", Arch: "amd64", Engine: "KVM"},
		netip.MustParseAddr("10.77.1.2"), metav1.Now())
	keys := map[string]bool{}
	for _, taint := range node.Spec.Taints {
		keys[taint.Key] = true
		if taint.Effect == corev1.TaintEffectNoExecute {
			t.Errorf("taint %s", taint.ToString())
		}
	}
	if !keys[karpv1.UnregisteredTaintKey] {
		t.Error("a Node no claim has taken yet does not say so")
	}
	if s := node.Status; len(s.RuntimeHandlers) != 1 || !*s.RuntimeHandlers[0].Features.RecursiveReadOnlyMounts ||
		!*s.Features.SupplementalGroupsPolicy {
		t.Errorf("it does not say what microVMs can do: %+v, %+v", s.RuntimeHandlers, s.Features)
	}
}

// Where pods reach the kubelet, InternalIP leads to it, since metrics-server and Prometheus use that address. A
// joined host has no other address, whichever type the API server prefers.
func TestANodesAddressesLeadToItsKubelet(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{}}}
	pod, gateway := netip.MustParseAddr("10.77.1.2"), netip.MustParseAddr("10.77.0.1")
	for _, c := range []struct {
		kubelet string
		joined  netip.Addr
		want    string
	}{
		{"127.77.1.2:20003", netip.Addr{}, "InternalIP 10.77.1.2, Hostname ip-10-77-1-2, InternalDNS 127.77.1.2"},
		{"10.77.0.1:20258", netip.Addr{}, "Hostname ip-10-77-1-2, InternalIP 10.77.0.1, InternalDNS 10.77.0.1"},
		{"10.77.0.1:20258", gateway, "InternalIP 10.77.0.1, InternalDNS 10.77.0.1"},
	} {
		at := netip.MustParseAddrPort(c.kubelet)
		node := newNode(claim, microvm.Description{
			Address: c.joined, Kubelet: func(netip.Addr) netip.AddrPort { return at },
		}, pod, metav1.Now())
		var got []string
		for _, a := range node.Status.Addresses {
			got = append(got, string(a.Type)+" "+a.Address)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("kubelet at %s: addresses %s, want %s", at, s, c.want)
		}
		if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; port != int32(at.Port()) {
			t.Errorf("kubelet at %s: port %d", at, port)
		}
	}
}

func TestANodeOfABilledHostSaysWhatFargateBills(t *testing.T) {
	size := fargate.Size{MilliCPU: 250, MemoryBytes: 512 << 20, StorageBytes: 20 << 30}
	for _, c := range []struct {
		host microvm.Description
		want string
	}{
		{microvm.Description{Region: "us-west-2", Billed: true}, "0.012343"},
		{microvm.Description{Region: "us-west-2"}, ""}, // not billed
		{microvm.Description{Region: "xx-nowhere-1", Billed: true}, ""},
	} {
		claim := newClaim(&corev1.Pod{}, "apps", c.host, size)
		node := newNode(claim, c.host, netip.MustParseAddr("10.77.1.2"), metav1.Now())
		if got := node.Labels[labelPrice]; got != c.want {
			t.Errorf("%+v: %q, want %q", c.host, got, c.want)
		}
	}
}
