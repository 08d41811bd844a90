package agent

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/network"
)

func TestWhoIsAPeer(t *testing.T) {
	key := network.Key{7}.PublicKey()
	host := func(change func(*v1alpha1.MicroVMHost)) *v1alpha1.MicroVMHost {
		h := &v1alpha1.MicroVMHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "nodeless-host-shelf", Name: "shelf"},
			Spec:       v1alpha1.MicroVMHostSpec{PodCIDR: "10.202.16.0/20"},
			Status:     v1alpha1.MicroVMHostStatus{Address: "192.0.2.7", OverlayPort: 8476, OverlayPublicKey: key.String()},
		}
		change(h)
		return h
	}
	want := network.Peer{Pods: netip.MustParsePrefix("10.202.16.0/20"), At: netip.MustParseAddrPort("192.0.2.7:8476"), Key: key}
	if got := peerOf(host(func(*v1alpha1.MicroVMHost) {})); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for what, change := range map[string]func(*v1alpha1.MicroVMHost){
		"in user mode":             func(h *v1alpha1.MicroVMHost) { h.Status.OverlayPort = 0 },
		"with a port of no packet": func(h *v1alpha1.MicroVMHost) { h.Status.OverlayPort = 65536 },
		"of an earlier release":    func(h *v1alpha1.MicroVMHost) { h.Status.OverlayPublicKey = "" },
		"that has not joined yet":  func(h *v1alpha1.MicroVMHost) { h.Status = v1alpha1.MicroVMHostStatus{} },
		"without addresses":        func(h *v1alpha1.MicroVMHost) { h.Spec.PodCIDR = "many" },
		"in somebody's namespace":  func(h *v1alpha1.MicroVMHost) { h.Namespace = "default" },
	} {
		if got := peerOf(host(change)); got != (network.Peer{}) {
			t.Errorf("a host %s is the peer %+v", what, got)
		}
	}
	p := &Peers{changed: make(chan struct{}, 1)}
	p.see(host(func(*v1alpha1.MicroVMHost) {}), host(func(h *v1alpha1.MicroVMHost) { h.Status.Message = "still there" }))
	if len(p.changed) != 0 {
		t.Error("that a host is still there is told as a change")
	}
	p.see(host(func(*v1alpha1.MicroVMHost) {}), nil)
	if len(p.changed) != 1 {
		t.Error("that a host went is not told")
	}
}
