package ahead

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// node adds a node with the given number of pods; its NodeClaim expires after the given duration.
func (d *day) node(after string, pods int) *karpv1.NodeClaim {
	labels := map[string]string{
		karpv1.NodePoolLabelKey: "p", corev1.LabelInstanceTypeStable: "m.large", corev1.LabelTopologyZone: "a",
		karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand, corev1.LabelOSStable: "linux",
		corev1.LabelArchStable: "amd64", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: labels,
			CreationTimestamp: metav1.NewTime(d.clock.Now()),
		}
	}
	claim, node := &karpv1.NodeClaim{ObjectMeta: meta("c")}, &corev1.Node{ObjectMeta: meta("n")}
	claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration(after)
	claim.Status.ProviderID, node.Spec.ProviderID = "aws:///a/i-1", "aws:///a/i-1"
	claim.Status.NodeName = "n"
	node.Status.Allocatable = corev1.ResourceList{
		"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("58"),
	}
	node.Status.Capacity = node.Status.Allocatable
	s := d.c.o.Planner.State
	s.Update(claim)
	s.Update(node)
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: meta("web-" + string(rune('a'+i)))}
		pod.Namespace, pod.Labels = "default", nil
		pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")},
		}}}
		s.Update(pod)
	}
	return claim
}

// expiring runs the controller on a claim until the given time and returns the snapshot of that time.
func (d *day) expiring(claim *karpv1.NodeClaim, text string) *model.Snapshot {
	d.Helper()
	end := at("2026-06-03T" + text + "Z")
	for steps := 0; steps < 100; steps++ {
		again := d.c.stepExpiry(claim, d.clock.Now())
		if again.IsZero() || again.After(end) {
			d.clock.Advance(end.Sub(d.clock.Now()))
			return d.c.o.Planner.State.Snapshot()
		}
		d.clock.Advance(max(again.Sub(d.clock.Now()), time.Millisecond))
	}
	d.Fatal("it asks again and again")
	return nil
}

func TestPodsOfANodeThatExpiresGetTheirNextNodeABootTimeAhead(t *testing.T) {
	d := newDay(t, nil)
	claim := d.node("1h", 5)
	if s := d.expiring(claim, "12:59:18"); len(s.Pending) != 0 {
		t.Errorf("%d pods need a node too early", len(s.Pending))
	}
	s := d.expiring(claim, "12:59:20")
	if len(s.Pending) != 5 || s.Pending[0].From != "n" {
		t.Fatalf("the pods that need a node are %v", s.Pending)
	}
	if plan := engine.Provision(s, model.Defaults()); len(plan.Launches) != 1 || len(plan.Launches[0].Pods) != 5 {
		t.Errorf("the plan is %+v", plan)
	}
}

func TestNodesThatExpireAndAreNotReplacedAhead(t *testing.T) {
	for name, c := range map[string]struct {
		after  string
		pods   int
		change func(*karpv1.NodePool)
	}{
		"no pods":              {"1h", 0, nil},
		"never":                {"Never", 5, nil},
		"too short a life":     {"80s", 5, nil},
		"the pool is off":      {"1h", 5, func(np *karpv1.NodePool) { np.Annotations[translate.AnnotationAhead] = "false" }},
		"as many as it should": {"1h", 5, func(np *karpv1.NodePool) { np.Spec.Replicas = new(int64) }},
	} {
		d := newDay(t, func(np *karpv1.NodePool, _ *batchv1.CronJob) {
			if c.change != nil {
				c.change(np)
			}
		})
		if s := d.expiring(d.node(c.after, c.pods), "13:00:00"); len(s.Pending) != 0 {
			t.Errorf("%s: %d pods need a node", name, len(s.Pending))
		}
	}
}

// shown is a watch cache with one NodeClaim. It reports the names of the NodeClaims that are read.
type shown struct {
	cache.Cache
	claim karpv1.NodeClaim
	read  chan string
}

func (s *shown) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*karpv1.NodeClaimList).Items = []karpv1.NodeClaim{s.claim}
	return nil
}

func (s *shown) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	s.read <- key.Name
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// A standby remembers no NodeClaims: the leader begins with those that exist, and goes on with new ones.
func TestAStandbyRemembersNoNodeClaims(t *testing.T) {
	claim := func(name string) *karpv1.NodeClaim {
		return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	d, s := newDay(t, nil), &shown{claim: *claim("there"), read: make(chan string)}
	d.c.o.Cache = s
	d.c.watchExpiry(nil, claim("gone"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.c.Run(ctx) }()
	if got := <-s.read; got != "there" {
		t.Errorf("the leader begins with %s", got)
		<-s.read
	}
	d.c.watchExpiry(nil, claim("new"))
	if got := <-s.read; got != "new" {
		t.Errorf("the leader goes on with %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
