package controller_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// On EKS with Auto Mode on, AWS's controller works with NodePools, NodeClaims and Nodes of the same kinds. Nodeless
// writes to none of them, while it launches nodes for its own NodePools.
func TestObjectsOfAnotherControllerAreLeftToIt(t *testing.T) {
	s, ctx := stacktest.Start(t), context.Background()
	if err := crds.Apply(ctx, s.Plane.RESTConfig(), crds.AutoMode()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := crds.Install(ctx, s.Plane.RESTConfig()); err != nil {
			t.Error(err)
		}
	})
	class := &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	labels := map[string]string{karpv1.NodePoolLabelKey: "auto", "eks.amazonaws.com/nodeclass": "default"}
	requirements := []karpv1.NodeSelectorRequirementWithMinValues{}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "auto"}}
	pool.Spec.Template.Spec.NodeClassRef, pool.Spec.Template.Spec.Requirements = class, requirements
	pool.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("336h")
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "auto-1", Labels: labels}}
	claim.Spec.NodeClassRef, claim.Spec.Requirements = class, requirements
	claim.Spec.ExpireAfter = pool.Spec.Template.Spec.ExpireAfter
	objects := []client.Object{pool, claim}
	for _, name := range []string{"auto-tainted", "auto-deleted"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels, Finalizers: []string{karpv1.TerminationFinalizer},
		}}
		node.Spec.ProviderID = "aws:///us-west-2a/i-" + name
		node.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
		objects = append(objects, node)
	}
	for _, o := range objects {
		create(t, s.Client, o)
		t.Cleanup(func() {
			_ = s.Client.Delete(ctx, o)
			_ = s.Client.Patch(ctx, o, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":null}}`)))
		})
	}
	if err := s.Client.Delete(ctx, objects[3]); err != nil {
		t.Fatal(err)
	}
	<-s.Controller(t, func(*controller.Options) {}).Leads
	web := deployment(planetest.Namespace(t, s.Plane), "web", 1)
	create(t, s.Client, web)
	running(t, s.Client, web)
	pool, claim = objectOf(t, s, "auto", &karpv1.NodePool{}), objectOf(t, s, "auto-1", &karpv1.NodeClaim{})
	if len(pool.Annotations)+len(pool.Status.Conditions) > 0 {
		t.Errorf("its NodePool has annotations %v and conditions %v", pool.Annotations, pool.Status.Conditions)
	}
	if len(claim.Annotations)+len(claim.Status.Conditions)+len(claim.Finalizers) > 0 || claim.DeletionTimestamp != nil {
		t.Errorf("its NodeClaim is %+v with conditions %v", claim.ObjectMeta, claim.Status.Conditions)
	}
	for _, o := range objects[2:] {
		node := objectOf(t, s, o.GetName(), &corev1.Node{})
		tainted := false
		for i := range node.Spec.Taints {
			tainted = tainted || node.Spec.Taints[i].MatchTaint(&karpv1.DisruptedNoScheduleTaint)
		}
		if !tainted || len(node.Finalizers) != 1 || node.Labels[corev1.LabelNodeExcludeBalancers] != "" {
			t.Errorf("its Node is %+v with taints %v", node.ObjectMeta, node.Spec.Taints)
		}
	}
}
