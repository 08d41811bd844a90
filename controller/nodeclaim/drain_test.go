package nodeclaim

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// server is an API server with one pod; the cache beside it is still empty.
type server struct {
	client.Client
	pod *corev1.Pod // nil once it is evicted or deleted

	noEviction, noDeletion error // why these are refused
}

func (s *server) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	node, _ := o.FieldSelector.RequiresExactMatch(byNodeName)
	if s.pod != nil && s.pod.Spec.NodeName == node {
		list.(*corev1.PodList).Items = []corev1.Pod{*s.pod}
	}
	return nil
}

func (s *server) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	if s.noDeletion == nil {
		s.pod = nil
	}
	return s.noDeletion
}

func (s *server) SubResource(string) client.SubResourceClient { return evictions{server: s} }

// evictions evicts as the API server does: a failed precondition is a conflict.
type evictions struct {
	client.SubResourceClient
	server *server
}

func (e evictions) Create(_ context.Context, o client.Object, body client.Object,
	_ ...client.SubResourceCreateOption,
) error {
	if e.server.noEviction != nil {
		return e.server.noEviction
	}
	what := policyv1.Resource("pods")
	if e.server.pod == nil || e.server.pod.Name != o.GetName() {
		return apierrors.NewNotFound(what, o.GetName())
	}
	options := body.(*policyv1.Eviction).DeleteOptions
	if options != nil && options.Preconditions != nil && options.Preconditions.UID != nil &&
		*options.Preconditions.UID != e.server.pod.UID {
		return apierrors.NewConflict(what, o.GetName(), nil)
	}
	e.server.pod = nil
	return nil
}

type unaware struct{ cache.Cache }

func (unaware) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// seeing is a cache that shows what the server has.
type seeing struct {
	cache.Cache
	s *server
}

func (c seeing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.s.List(ctx, list, opts...)
}

type silent struct{}

func (silent) Event(runtime.Object, string, string, string) {}

// with returns a drainer whose cache lags behind the server.
func with(s *server) *drainer {
	clk := clock.NewVirtual(time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC))
	return &drainer{&objects{
		client: s, cache: unaware{}, cluster: cluster.New(cluster.Options{Clock: clk}), recorder: silent{}, clock: clk,
		state: &pendingState{}, metrics: metrics.New(nil), log: slog.New(slog.DiscardHandler),
	}}
}

func podOn(node string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-0", UID: uid},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// A StatefulSet recreates a pod under its name: the new pod, which runs elsewhere by now, must not be evicted in
// place of the old one.
func TestAnotherPodOfTheNameIsNotEvicted(t *testing.T) {
	s := &server{pod: podOn("elsewhere", "new")}
	d := with(s)
	if done := d.evict(t.Context(), &corev1.Node{}, podOn("going", "old")); !done || s.pod == nil {
		t.Errorf("the old pod is gone: %t; the new one was evicted: %t", done, s.pod == nil)
	}
	if done := d.evict(t.Context(), &corev1.Node{}, podOn("elsewhere", "new")); !done || s.pod != nil {
		t.Errorf("the pod that was meant is not evicted")
	}
}

// A pod that was bound at the last moment is not in the cache yet: the API server is queried before a node counts as
// empty.
func TestANodeIsEmptyWhenTheServerSaysSo(t *testing.T) {
	s := &server{pod: podOn("going", "late")}
	d, node := with(s), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "going"}}
	if wait, err := d.drain(t.Context(), node, nil); err != nil || wait == 0 {
		t.Errorf("a pod runs there, and the node counts as empty: again in %s, %v", wait, err)
	}
	if wait, err := d.drain(t.Context(), node, nil); err != nil || wait != 0 || s.pod != nil {
		t.Errorf("the pod was evicted, and the node does not count as empty: again in %s, %v", wait, err)
	}
}

// The only pod of a Deployment is not evicted before its replacement is ready, unless the cloud takes the node away
// meanwhile.
func TestANodeThatIsReclaimedDuringItsDrainWaitsForNoReplacement(t *testing.T) {
	s := &server{pod: podOn("going", "only")}
	d, node := with(s), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "going"}}
	d.cache = seeing{s: s}
	claim := &karpv1.NodeClaim{}
	claim.StatusConditions().SetUnknown(karpv1.ConditionTypeDrained) // written when the drain began
	d.waitForSurge(s.pod, d.now().Add(time.Hour))
	if _, err := d.drain(t.Context(), node, claim); err != nil || s.pod == nil {
		t.Errorf("the pod is evicted before its replacement is ready: %t, %v", s.pod == nil, err)
	}
	claim.Annotations = map[string]string{
		translate.AnnotationInterrupted: translate.Interruption(string(cloud.SpotInterruption), d.now()),
	}
	if _, err := d.drain(t.Context(), node, claim); err != nil || s.pod != nil {
		t.Errorf("the pod waits for a replacement: %t, %v", s.pod != nil, err)
	}
}

// A pod whose instance is gone keeps neither its Node nor its claim, whatever an admission policy says: Kubernetes
// collects it once the Node is gone.
func TestNoPolicyKeepsANodeWhoseInstanceIsGone(t *testing.T) {
	pods := policyv1.Resource("pods")
	denied := apierrors.NewForbidden(pods, "db-0", errors.New("ValidatingAdmissionPolicy denied it"))
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "db-0", nil)
	for name, c := range map[string]struct {
		noEviction, noDeletion error
		stays, fails           bool
	}{
		"a budget refuses the eviction":           {noEviction: apierrors.NewTooManyRequests("budget", 0)},
		"a policy refuses the eviction, 400":      {noEviction: apierrors.NewBadRequest("denied")},
		"a policy refuses the eviction, 403":      {noEviction: denied},
		"a policy refuses the eviction, 422":      {noEviction: invalid},
		"a policy refuses the deletion, too":      {noEviction: denied, noDeletion: denied, stays: true},
		"the pod is gone":                         {noEviction: apierrors.NewNotFound(pods, "db-0"), stays: true},
		"the API server asks to slow down":        {denied, apierrors.NewTooManyRequests("busy", 1), true, true},
		"the API server cannot delete it for now": {denied, apierrors.NewInternalError(errors.New("etcd")), true, true},
		"the API server cannot be reached":        {denied, errors.New("connection refused"), true, true},
	} {
		s := &server{pod: podOn("lost", "1"), noEviction: c.noEviction, noDeletion: c.noDeletion}
		d := with(s)
		d.cache = seeing{s: s}
		if err := d.removeLost(t.Context(), "lost"); (err != nil) != c.fails || (s.pod != nil) != c.stays {
			t.Errorf("%s: the pod stays: %t, and %v", name, s.pod != nil, err)
		}
	}
}
