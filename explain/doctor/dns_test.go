package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAControllerThatNeedsDNSOfItsOwnNodes(t *testing.T) {
	pod := func(name, node string, policy corev1.DNSPolicy, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels},
			Spec:       corev1.PodSpec{NodeName: node, DNSPolicy: policy},
		}
	}
	controller := func(policy corev1.DNSPolicy) *corev1.Pod {
		return pod("controller", "a", policy, map[string]string{"app.kubernetes.io/name": "karpenter"})
	}
	coredns := func(node string) *corev1.Pod {
		return pod("coredns-"+node, node, corev1.DNSDefault, map[string]string{"k8s-app": "kube-dns"})
	}
	node := func(name, pool string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if pool != "" {
			n.Labels = map[string]string{"karpenter.sh/nodepool": pool}
		}
		return n
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    Status
		says    string
	}{
		"no controller":  {nil, OK, "no controller in namespace kube-system asks"},
		"the node's DNS": {[]client.Object{controller(corev1.DNSDefault), node("a", "p"), coredns("a")}, OK, "asks"},
		"DNS pods of its own nodes": {
			[]client.Object{controller(corev1.DNSClusterFirst), node("a", "p"), coredns("a")}, Warning, "can launch none",
		},
		"no DNS pods":            {[]client.Object{controller(corev1.DNSClusterFirst)}, Warning, "can launch none"},
		"DNS pods without nodes": {[]client.Object{controller(corev1.DNSClusterFirst), coredns("")}, Warning, "can launch none"},
		"a DNS pod of a group": {
			[]client.Object{controller(corev1.DNSClusterFirst), node("a", "p"), node("b", ""), coredns("a"), coredns("b")},
			OK, "DNS pod coredns-b is on a node that the controller does not launch",
		},
	} {
		if f := found(t, sound(t, nil, c.objects...), "DNS policy"); f.Status != c.want || !strings.Contains(f.Says, c.says) {
			t.Errorf("%s: %+v, want %s with %q", name, f, c.want, c.says)
		}
	}
}
