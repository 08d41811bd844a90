package transition

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// karpenterScheme returns a scheme with NodePools and NodeClaims.
func karpenterScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(karpenter, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{}, &karpv1.NodePool{},
		&karpv1.NodePoolList{})
	metav1.AddToGroupVersion(scheme, karpenter)
	return scheme
}

// A drain that goes on after its process was killed does not wait again for the pools to launch nodes: they have.
func TestAContinuedDrainDoesNotWaitForNodesAgain(t *testing.T) {
	began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "web", CreationTimestamp: metav1.NewTime(began.Add(2 * time.Second)),
	}}
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)

	tr := &Transition{
		Config: Config{Clock: clock.NewVirtual(began.Add(time.Minute)), Say: t.Logf}, // on which a wait would not end
		client: fake.NewClientBuilder().WithScheme(karpenterScheme()).WithObjects(claim).Build(),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := tr.awaitNodes(ctx, &State{DrainingSince: &metav1.Time{Time: began}}, 8); err != nil {
		t.Error(err)
	}
}

// The pods of a node that is tainted later need nodes of their own, also if the pools have launched some since the
// drain began.
func TestADrainWaitsAnewAfterItTaintsAnotherNode(t *testing.T) {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Namespace: "default",
		OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "shop", Controller: &yes}},
	}}
	p := newPlace(t, state(Closed, 2), pod)
	p.group.desired, p.forecast.Launches = 2, 1
	refuses := true
	p.kubernetes.PrependReactor("update", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		n := a.(clienttesting.UpdateAction).GetObject().(*corev1.Node)
		if refuses && n.Name == "node-1" {
			return true, nil, errors.New("the API server restarts")
		}
		return false, nil, nil
	})
	drain := func(want string) *State {
		t.Helper()
		s, err := p.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.drainGroups(p.untilItWaits(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want %q", err, want)
		}
		if s, err = p.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := drain("the API server restarts"); s.DrainingSince != nil {
		t.Errorf("without all taints, it drains since %s", s.DrainingSince)
	}
	refuses = false
	for minute := range 2 {
		p.clock.Advance(time.Minute)
		s := drain("waiting for the nodes of the pools")
		if since := p.clock.Now(); s.DrainingSince == nil || !s.DrainingSince.Time.Equal(since) {
			t.Errorf("in minute %d it drains since %s, want %s", minute, s.DrainingSince, since)
		}
		p.group.desired++ // another node
	}
}

// A microVM that starts during a drain has no room for the pods of the groups: the drain does not wait for it.
func TestADrainWaitsForNodesButNotForMicroVMs(t *testing.T) {
	p := newPlace(t, state(Closed, 2))
	s := &State{DrainingSince: &metav1.Time{Time: noon}}
	if err := p.client.Create(t.Context(), claimOf("FargateProfile")); err != nil {
		t.Fatal(err)
	}
	if err := p.awaitNodes(p.untilItWaits(), s, 1); err != nil {
		t.Errorf("a microVM: %v", err)
	}
	if err := p.client.Create(t.Context(), claimOf(v1alpha1.NodeGroupKind)); err != nil {
		t.Fatal(err)
	}
	if err := p.awaitNodes(p.untilItWaits(), s, 1); err == nil || !strings.Contains(err.Error(), "1 of 2 are ready") {
		t.Errorf("a node of a NodeGroup: %v", err)
	}
}
