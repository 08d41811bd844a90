package status

import (
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Two controllers that write the conditions of one NodePool would undo each other's writes for ever. Only a kind that
// nobody can know, because it is mistyped, is named.
func TestANodePoolOfAnotherControllerIsLeftToIt(t *testing.T) {
	served := schema.GroupVersionKind{Group: "eks.amazonaws.com", Version: "v1", Kind: "NodeClass"}
	for kind, message := range map[string]string{
		"NodeClass": "",
		"NodeClas":  `NodeClas of group "eks.amazonaws.com" is not known; use EC2NodeClass of group "karpenter.k8s.aws"`,
	} {
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}
		pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: served.Group, Kind: kind, Name: "default"}
		mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{served.GroupVersion()})
		mapper.Add(served, meta.RESTScopeRoot)
		mapper.Add(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, meta.RESTScopeRoot)
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRESTMapper(mapper).WithObjects(pool).
			WithStatusSubresource(pool).Build()
		from := &changing{api: api}
		classes := NewClasses(t.Context(), from)
		p := newPoolReconciler(&Options{
			Classes: classes, Cache: from, Client: api, Clock: clock.Real{},
			Cluster: cluster.New(cluster.Options{ClassKinds: classes.Kinds}),
		})
		before := &karpv1.NodePool{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pool), before); err != nil {
			t.Fatal(err)
		}
		if _, err := p.reconcile(t.Context(), pool.Name); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			t.Fatal(err)
		}
		if message == "" {
			if pool.ResourceVersion != before.ResourceVersion {
				t.Errorf("the pool was written: %v %v", pool.Annotations, pool.Status.Conditions)
			}
			continue
		}
		ready := pool.StatusConditions().Get(karpv1.ConditionTypeNodeClassReady)
		if !ready.IsFalse() || !strings.Contains(ready.Message, message) || len(pool.Annotations) > 0 {
			t.Errorf("%s: %+v, annotations %v", kind, ready, pool.Annotations)
		}
	}
}
