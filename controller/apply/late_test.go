package apply

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
)

// Two launches of one plan fit a limit one at a time, but not together: the second is refused, whatever made the
// plan.
func TestLaunchesOfAPlanCountForItsOwnLimits(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	s := r.snapshot()
	p := r.plan(s)
	second := p.Launches[0]
	second.ID, second.Pods = "0123456789abcdef", nil
	p.Launches = append(p.Launches, second)
	most := int64(0)
	for _, it := range s.Pools[0].Types {
		for _, name := range second.Types {
			if it.Name == name {
				most = max(most, it.Capacity[model.CPU])
			}
		}
	}
	limit := func(to karpv1.Limits) {
		t.Helper()
		pool := &karpv1.NodePool{}
		if err := r.client.Get(t.Context(), types.NamespacedName{Name: r.pool}, pool); err != nil {
			t.Fatal(err)
		}
		pool.Spec.Limits = to
		if err := r.client.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		r.until("the world knows the limit", func() bool {
			known := r.state.NodePool(r.pool)
			return known != nil && known.Generation == pool.Generation
		})
	}
	limit(karpv1.Limits{"cpu": *resource.NewMilliQuantity(2*most-1, resource.DecimalSI)})
	done := r.applier.Apply(t.Context(), s, p)
	if len(done.Created) != 1 || len(done.Refused) != 1 || !strings.Contains(done.Refused[0].Why, "limit of cpu") {
		t.Errorf("created %v, refused %v", done.Created, done.Refused)
	}
	limit(karpv1.Limits{"nodes": resource.MustParse("2")}) // one node exists
	p.Launches[0].ID, p.Launches[1].ID = "1123456789abcdef", "2123456789abcdef"
	done = r.applier.Apply(t.Context(), s, p)
	if len(done.Created) != 1 || len(done.Refused) != 1 || !strings.Contains(done.Refused[0].Why, "limit of 2 nodes") {
		t.Errorf("created %v, refused %v", done.Created, done.Refused)
	}
}

// meddler is an API server on which another client changes a NodeClaim just before it is deleted.
type meddler struct{ client.Client }

func (m meddler) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	claim := &karpv1.NodeClaim{}
	if err := m.Get(ctx, client.ObjectKeyFromObject(o), claim); err != nil {
		return err
	}
	claim.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
	if err := m.Update(ctx, claim); err != nil {
		return err
	}
	return m.Client.Delete(ctx, o, opts...)
}

// A NodeClaim is deleted only if it is unchanged since it was read: an owner may have forbidden disruption at the
// last moment.
func TestAClaimThatIsChangedBeforeItsDeletionStays(t *testing.T) {
	r := enter(t, "100")
	r.pods(1, "1")
	s := r.snapshot()
	name := r.applier.Apply(t.Context(), s, r.plan(s)).Created[0]
	r.restart(meddler{r.client})
	if err := r.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(r.namespace),
		client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	r.until("the pods are gone and the claim is known",
		func() bool { return len(r.snapshot().Pending) == 0 && r.state.Claim(name) != nil })
	node := machineOf(r.snapshot(), name)
	done := r.applier.Apply(t.Context(), r.snapshot(),
		model.Plan{Removals: []model.Removal{{Node: node, Claim: name, Pool: r.pool, Method: model.Empty}}})
	if len(done.Removed) != 0 || len(done.Refused) != 1 || done.Refused[0].Why != "it has changed in the meantime" {
		t.Errorf("removed %v, refused %v, errors %v", done.Removed, done.Refused, done.Errors)
	}
	if claim := r.claim(name); claim.DeletionTimestamp != nil {
		t.Error("the claim was asked to go")
	}
}

// machineOf returns the name of the claim's node in the snapshot.
func machineOf(s *model.Snapshot, claim string) string {
	for i := range s.Nodes {
		if s.Nodes[i].Claim == claim {
			return s.Nodes[i].Name
		}
	}
	return ""
}

// A do-not-disrupt annotation set on a node or a pod after the plan was made still counts, until the node's deletion
// is requested.
func TestLateDoNotDisruptKeepsANode(t *testing.T) {
	forbidden := map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	for name, c := range map[string]struct {
		method    model.Method
		node, pod map[string]string
		daemon    bool
		ending    bool
		want      string
	}{
		"nothing was said": {method: model.Empty, daemon: true},
		"the node of an empty one": {
			method: model.Empty, node: forbidden, daemon: true,
			want: "it may no longer be disrupted",
		},
		"a DaemonSet's pod": {
			method: model.Empty, pod: forbidden, daemon: true,
			want: "pod default/web may not be disrupted",
		},
		"a pod of one that drifted":    {method: model.Drifted, pod: forbidden, want: "pod default/web may not be disrupted"},
		"the node of one that drifted": {method: model.Drifted, node: forbidden, want: "it may no longer be disrupted"},
		"nothing, and it drifted":      {method: model.Drifted},
		"its last pod is terminating":  {method: model.Empty, ending: true},
		"a pod that is terminating":    {method: model.Empty, ending: true, pod: forbidden},
	} {
		w := cluster.New(cluster.Options{})
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "c", UID: "c",
			Labels: map[string]string{karpv1.NodePoolLabelKey: "p"},
		}}
		claim.Status.ProviderID, claim.Status.NodeName = "aws:///a/i-1", "n"
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeDrifted)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///a/i-1"},
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"},
			Spec:       corev1.PodSpec{NodeName: "n"},
		}
		if c.ending {
			pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		if c.daemon {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "d",
				Controller: &yes,
			}}
		}
		w.Update(claim)
		w.Update(node)
		w.Update(pod)
		s := w.Snapshot()
		later, annotated := node.DeepCopy(), pod.DeepCopy()
		later.Annotations, later.ResourceVersion = c.node, "2"
		annotated.Annotations, annotated.ResourceVersion = c.pod, "2"
		w.Update(later)
		w.Update(annotated)
		_, why := New(Options{State: w}).stillTrue(s, &model.Removal{Node: "n", Claim: "c", Pool: "p", Method: c.method})
		if why != c.want {
			t.Errorf("%s: it stays for %q, want %q", name, why, c.want)
		}
	}
}
