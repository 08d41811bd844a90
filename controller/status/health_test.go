package status

import (
	"context"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func TestAPoolIsJudgedByItsLastFourLaunches(t *testing.T) {
	h := &health{}
	for i, step := range []struct {
		ok   bool
		want metav1.ConditionStatus
	}{
		{true, "True"},
		{false, "True"},
		{false, "False"},
		{true, "False"},
		{true, "False"},
		{true, "True"},
		{false, "True"},
		{false, "False"},
	} {
		if h.add(step.ok); h.verdict() != step.want {
			t.Errorf("after launch %d (%v) of %v it is %s, want %s", i+1, step.ok, h.outcomes, h.verdict(), step.want)
		}
	}
	if got := (&health{}).verdict(); got != "Unknown" {
		t.Errorf("without launches it is %s", got)
	}
}

func TestTheNextProcessKnowsHowLaunchesWent(t *testing.T) {
	for was, want := range map[metav1.ConditionStatus]metav1.ConditionStatus{
		"False": "False", "True": "True",
		"Unknown": "True",
	} {
		h := &health{}
		h.add(true) // a launch before the pool was first reconciled
		h.restore(&opstatus.Condition{Status: was, Reason: "RegistrationFailed"})
		h.restore(&opstatus.Condition{Status: metav1.ConditionFalse})
		if h.verdict() != want {
			t.Errorf("condition %s, then a launch that went well: %s, want %s", was, h.verdict(), want)
		}
	}
	h := &health{}
	h.restore(nil)
	if h.verdict() != "Unknown" {
		t.Errorf("nothing known before: %s", h.verdict())
	}
}

// changing is a cache in which the generation of a class becomes 2 after some reads of it.
type changing struct {
	cache.Cache
	api   client.Reader
	reads int // number of reads that still return generation 1
}

func (c *changing) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	class, ok := into.(*ec2v1.EC2NodeClass)
	if !ok {
		return c.api.Get(ctx, key, into)
	}
	class.Name, class.UID, class.Generation = key.Name, "c", 1
	if c.reads--; c.reads < 0 {
		class.Generation = 2
	}
	return nil
}

// A class may change at any moment of a pool's reconciliation. Whenever the pool has observed the change, earlier
// launches no longer count.
func TestAnObservedChangeOfTheClassResetsThePoolsHealth(t *testing.T) {
	ctx := t.Context()
	for reads := range 5 {
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 1}}
		pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "c"}
		pool.StatusConditions().SetFalse(karpv1.ConditionTypeNodeRegistrationHealthy, "RegistrationFailed", "no Node")
		pool.Status.NodeClassObservedGeneration = 1
		api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pool).WithStatusSubresource(pool).Build()
		from := &changing{api: api, reads: reads}
		p := newPoolReconciler(&Options{
			Classes: NewClasses(ctx, from), Cache: from, Client: api, Cluster: cluster.New(cluster.Options{}),
			Clock: clock.Real{},
		})
		if _, err := p.reconcile(ctx, pool.Name); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			t.Fatal(err)
		}
		healthy := pool.StatusConditions().Get(karpv1.ConditionTypeNodeRegistrationHealthy)
		observed := pool.Status.NodeClassObservedGeneration
		if want := map[int64]metav1.ConditionStatus{1: "False", 2: "Unknown"}[observed]; healthy.Status != want {
			t.Errorf("class changed after %d reads: the pool observes generation %d and is %s, want %s", reads, observed,
				healthy.Status, want)
		}
	}
}
