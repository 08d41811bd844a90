package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// desk is an API server, a cluster state that watches nothing, and an applier.
type desk struct {
	api     client.Client
	clock   *clock.Virtual
	state   *cluster.State
	applier *Applier
}

func deskWith(f interceptor.Funcs, claims ...string) *desk {
	kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(f).
		WithStatusSubresource(&karpv1.NodeClaim{})
	for _, name := range claims {
		kube = kube.WithObjects(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Labels: map[string]string{karpv1.NodePoolLabelKey: "p"},
			Finalizers: []string{karpv1.TerminationFinalizer},
		}})
	}
	d := &desk{api: kube.Build(), clock: clock.NewVirtual(time.Unix(0, 0))}
	d.state = cluster.New(cluster.Options{Clock: d.clock})
	d.applier = New(Options{Client: d.api, State: d.state, Recorder: &recorder{}, Clock: d.clock})
	return d
}

func (d *desk) claim(t *testing.T, name string) *karpv1.NodeClaim {
	t.Helper()
	claim := &karpv1.NodeClaim{}
	if err := d.api.Get(t.Context(), client.ObjectKey{Name: name}, claim); err != nil {
		t.Fatal(err)
	}
	return claim
}

func (d *desk) advance(t *testing.T) {
	t.Helper()
	if r, _ := d.applier.Advance(t.Context(), d.state.Snapshot(), still); len(r.Errors) > 0 {
		t.Fatal(r.Errors)
	}
}

// A watch may lag by minutes, or have begun after a claim's end. Only the API server knows which.
func TestClaimsThatTheWatchDoesNotShowAreRead(t *testing.T) {
	down := false
	d := deskWith(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
		o client.Object, opts ...client.GetOption,
	) error {
		if down {
			return errors.New("connection refused")
		}
		return c.Get(ctx, key, o, opts...)
	}}, "there", "gone")
	for _, name := range []string{"there", "gone"} {
		d.state.ObserveClaim(d.claim(t, name))
	}
	gone := d.claim(t, "gone")
	gone.Finalizers = nil
	if err := d.api.Update(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if err := d.api.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		down bool
		want int64
	}{{"the API server cannot be reached", true, 2}, {"it can", false, 1}, {"later", false, 1}} {
		down = c.down
		d.clock.Advance(31 * time.Second)
		d.advance(t)
		if _, nodes := d.state.PoolUsage("p"); nodes != c.want {
			t.Errorf("%s: %d nodes count, want %d", c.what, nodes, c.want)
		}
	}
}

// The annotation says why a claim was removed; on a claim that stays, it would explain a later, different removal.
func TestAClaimThatStaysAfterAllCarriesNoReasonOfItsRemoval(t *testing.T) {
	refuse := true
	d := deskWith(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object,
		opts ...client.DeleteOption,
	) error {
		if refuse {
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodeclaims"}, o.GetName(), errors.New("changed"))
		}
		return c.Delete(ctx, o, opts...)
	}}, "c")
	d.state.ObserveClaim(d.claim(t, "c"))
	remove := func() {
		t.Helper()
		s := d.state.Snapshot()
		plan := model.Plan{Removals: []model.Removal{{Node: s.Nodes[0].Name, Claim: "c", Pool: "p", Method: model.Empty}}}
		if r := d.applier.Apply(t.Context(), s, plan); len(r.Errors) > 0 || len(r.Refused) == 1 != refuse {
			t.Fatalf("refused %v, errors %v", r.Refused, r.Errors)
		}
		d.advance(t)
	}
	remove()
	if got := d.claim(t, "c").Annotations[translate.AnnotationDisruption]; got != "" {
		t.Errorf("the claim stays and says that it was removed for %s", got)
	}
	refuse = false
	remove()
	if c := d.claim(t, "c"); c.DeletionTimestamp == nil || c.Annotations[translate.AnnotationDisruption] != "Empty" {
		t.Errorf("the claim is removed: %v", c.ObjectMeta)
	}
}
