package scheduler

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// The pod is bound right after its Node is made. A taint of effect NoExecute, even one that is gone a moment later,
// would let Kubernetes' taint eviction delete it (ADR 11).
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
}

func TestANodeOfABilledHostSaysWhatFargateBills(t *testing.T) {
	size := fargate.Size{MilliCPU: 250, MemoryBytes: 512 << 20, StorageBytes: 20 << 30}
	for _, c := range []struct {
		host microvm.Description
		want string
	}{
		{microvm.Description{Region: "us-west-2", Billed: true}, "0.012343"},
		{microvm.Description{Region: "us-west-2"}, ""}, // a host of one's own
		{microvm.Description{Region: "xx-nowhere-1", Billed: true}, ""},
	} {
		claim := newClaim(&corev1.Pod{}, "apps", c.host, size)
		node := newNode(claim, c.host, netip.MustParseAddr("10.77.1.2"), metav1.Now())
		if got := node.Labels[labelPrice]; got != c.want {
			t.Errorf("%+v: %q, want %q", c.host, got, c.want)
		}
	}
}
