package nodeclaim

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
)

// eventList keeps the reasons of the recorded events.
type eventList []string

func (l *eventList) Event(_ runtime.Object, _, reason, _ string) { *l = append(*l, reason) }

// indexed is an API server that can also be read like the cache.
func indexed(f interceptor.Funcs, objects ...client.Object) client.Client {
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&karpv1.NodeClaim{}).WithInterceptorFuncs(f)
	for object, index := range map[client.Object]struct {
		field string
		value func(client.Object) string
	}{
		&karpv1.NodeClaim{}: {byClaimProvider, func(o client.Object) string {
			return o.(*karpv1.NodeClaim).Status.ProviderID
		}},
		&corev1.Node{}: {byNodeProvider, func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		&corev1.Pod{}:  {byNodeName, func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
	} {
		b = b.WithIndex(object, index.field, func(o client.Object) []string { return []string{index.value(o)} })
	}
	return b.Build()
}

// A second controller, such as that of EKS Auto Mode, works with NodeClaims and finalizers of the same name.
func TestClaimsAndNodesOfAnotherControllerAreLeftToIt(t *testing.T) {
	ending := &metav1.Time{Time: time.Unix(0, 0)}
	for name, change := range map[string]func(*karpv1.NodeClaim, *corev1.Node){
		"a claim to launch":             func(c *karpv1.NodeClaim, _ *corev1.Node) { c.Status.ProviderID = "" },
		"a claim whose Node is there":   func(*karpv1.NodeClaim, *corev1.Node) {},
		"a claim that is being deleted": func(c *karpv1.NodeClaim, _ *corev1.Node) { c.DeletionTimestamp = ending },
		"a Node that is being deleted":  func(_ *karpv1.NodeClaim, n *corev1.Node) { n.DeletionTimestamp = ending },
		"such a Node, without its claim": func(c *karpv1.NodeClaim, n *corev1.Node) {
			c.Status.ProviderID, n.DeletionTimestamp = "", ending
		},
	} {
		claim, node := bareClaim(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", Finalizers: []string{karpv1.TerminationFinalizer}, Labels: map[string]string{
				karpv1.NodePoolLabelKey: "general-purpose", "eks.amazonaws.com/nodeclass": "default",
			},
		}}
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
		claim.Status.ProviderID, node.Spec.ProviderID = "aws:///a/i-1", "aws:///a/i-1"
		change(claim, node)
		wrote := false
		api := indexed(interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				wrote = true
				return errors.New("not allowed")
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				wrote = true
				return errors.New("not allowed")
			},
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
				...client.SubResourcePatchOption,
			) error {
				wrote = true
				return errors.New("not allowed")
			},
		}, claim, node)
		provider := &answering{launch: func() error { return errors.New("not allowed") }}
		p := process(api, provider, func(o *Options) {
			o.Cluster = cluster.New(cluster.Options{Clock: o.Clock, ClassKinds: func() []schema.GroupKind {
				return []schema.GroupKind{{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass"}}
			}})
		})
		p.cluster.Update(claim)
		p.cluster.Update(node)
		again, err := p.reconcile(t.Context(), claim.Name)
		nodeAgain, nodeErr := p.finalizer.reconcile(t.Context(), node.Name)
		if err = errors.Join(err, nodeErr, p.collector.collect(t.Context())); err != nil || again+nodeAgain != 0 {
			t.Errorf("%s: again in %s and %s, %v", name, again, nodeAgain, err)
		}
		if wrote || len(provider.terminated) > 0 || p.state.claims.get(claim.UID).attempted {
			t.Errorf("%s: wrote: %t, terminated %v", name, wrote, provider.terminated)
		}
	}
}

// Nobody says that an instance has ended: its Node only stops being ready.
func TestTheEndOfAnInstanceIsNoticedWhileItsNodeWaitsForPods(t *testing.T) {
	ending := &metav1.Time{Time: time.Unix(0, 0)}
	for name, ready := range map[string]corev1.ConditionStatus{
		"it is ready": corev1.ConditionTrue, "it is not ready": corev1.ConditionFalse,
	} {
		claim, node, pod := bareClaim(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", Finalizers: []string{karpv1.TerminationFinalizer}, DeletionTimestamp: ending,
		}}, podOn("n", "1")
		claim.DeletionTimestamp, claim.Status.ProviderID, node.Spec.ProviderID = ending, "aws:///a/i-1", "aws:///a/i-1"
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		provider := &answering{there: []cloud.Instance{{ID: "i-1"}}}
		p := process(indexed(interceptor.Funcs{}, claim, node, pod), provider)
		again, err := p.finalizer.reconcile(t.Context(), "n")
		if soon := again > 0 && again <= maxPoll; soon != (ready == corev1.ConditionFalse) || err != nil {
			t.Errorf("%s: looked at again in %s, %v", name, again, err)
		}
		if ready == corev1.ConditionTrue {
			continue
		}
		provider.there = nil
		if _, err := p.finalizer.reconcile(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		if err := p.client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err == nil {
			t.Errorf("%s: the instance is gone, and the Node waits for its pod: %v", name, node.Finalizers)
		}
	}
}

// The kubelet of an instance whose host name changes registers a second Node.
func TestAClaimFollowsItsNodeToAnotherName(t *testing.T) {
	claim := bareClaim()
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///a/i-1", "before"
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	nodes := []client.Object{claim}
	for _, name := range []string{"before", "now"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.ProviderID = claim.Status.ProviderID
		nodes = append(nodes, n)
	}
	var said eventList
	p := process(indexed(interceptor.Funcs{}, nodes...), &answering{}, func(o *Options) { o.Recorder = &said })
	step := func() (*karpv1.NodeClaim, bool) {
		t.Helper()
		r := &reconciliation{claim: claim.DeepCopy()}
		goOn, err := p.registrar.register(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return r.claim, goOn
	}
	if got, goOn := step(); goOn || got.Status.NodeName != "before" || len(said) != 1 || said[0] != "MultipleNodesFound" {
		t.Errorf("with two Nodes it goes on: %t, with %s; events %v", goOn, got.Status.NodeName, said)
	}
	if err := p.client.Delete(t.Context(), nodes[1]); err != nil {
		t.Fatal(err)
	}
	if got, goOn := step(); !goOn || got.Status.NodeName != "now" {
		t.Errorf("it goes on: %t, and its Node is %s", goOn, got.Status.NodeName)
	}
}
