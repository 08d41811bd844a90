package nodeclaim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func metaOf(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: labels}
}

// pool creates a NodePool whose nodes are never disrupted voluntarily.
func (s *story) pool(name string) *karpv1.NodePool {
	s.Helper()
	p := &karpv1.NodePool{ObjectMeta: metaOf(name, nil)}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{
		Key:      corev1.LabelTopologyZone,
		Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"},
	}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: "default",
	}
	p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never")
	p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
	s.must(s.api.Create(context.Background(), p))
	s.Cleanup(func() { _ = s.api.Delete(context.Background(), p) })
	return p
}

// ownedBy makes a claim belong to a pool, as the applier does.
func ownedBy(p *karpv1.NodePool) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		block := true
		c.Labels = map[string]string{karpv1.NodePoolLabelKey: p.Name, "karpenter.k8s.aws/ec2nodeclass": "default"}
		c.Annotations = map[string]string{
			karpv1.NodePoolHashAnnotationKey:        p.Hash(),
			karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
		}
		c.Finalizers = []string{karpv1.TerminationFinalizer}
		c.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: p.Name,
			UID: p.UID, BlockOwnerDeletion: &block,
		}}
	}
}

// changed changes a pool's spec.
func (s *story) changed(p *karpv1.NodePool, change func(*karpv1.NodePoolSpec)) {
	s.Helper()
	s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(p), p))
	before := p.DeepCopy()
	change(&p.Spec)
	s.must(s.api.Patch(context.Background(), p, client.MergeFrom(before)))
}

// untilDrifted waits until the condition Drifted has the reason, or is absent if reason is "". The clock advances by
// step.
func (s *story) untilDrifted(name, reason string, step time.Duration) {
	s.Helper()
	s.passing(step, fmt.Sprintf("NodeClaim %s drifted: %q", name, reason), func(ctx context.Context) error {
		c := &karpv1.NodeClaim{}
		if err := s.api.Get(ctx, client.ObjectKey{Name: name}, c); err != nil {
			return err
		}
		got := c.StatusConditions(status.WithObservedOnly()).Get(karpv1.ConditionTypeDrifted)
		if (got == nil && reason == "") || (got != nil && got.Reason == reason) {
			return nil
		}
		return fmt.Errorf("condition is %v", got)
	})
}

func TestAMachineSaysThatItHasDriftedAsLongAsItHas(t *testing.T) {
	s := tellQuickly(t)
	pool := s.pool("drifting")
	s.ready("drifting-1", ownedBy(pool))
	moment := time.Millisecond // a change is detected at once, not at the next periodic check

	s.changed(pool, func(spec *karpv1.NodePoolSpec) { spec.Template.Labels = map[string]string{"team": "blue"} })
	s.untilDrifted("drifting-1", "NodePoolDrifted", moment)
	s.changed(pool, func(spec *karpv1.NodePoolSpec) { spec.Template.Labels = nil })
	s.untilDrifted("drifting-1", "", moment)

	s.changed(pool, func(spec *karpv1.NodePoolSpec) { spec.Template.Spec.Requirements[0].Values = []string{"b"} })
	s.untilDrifted("drifting-1", "RequirementsDrifted", moment)
	s.changed(pool, func(spec *karpv1.NodePoolSpec) { spec.Template.Spec.Requirements[0].Values = []string{"a"} })
	s.untilDrifted("drifting-1", "", moment)

	s.region.set(func() { s.region.drifted = "AMIDrift" })
	s.untilDrifted("drifting-1", "AMIDrift", 10*time.Second)
	s.region.set(func() { s.region.drifted = "" })
	s.untilDrifted("drifting-1", "", 10*time.Second)

	s.region.set(func() { s.region.unsold = true })
	s.untilDrifted("drifting-1", "InstanceTypeNotFound", 5*time.Minute)
	s.region.set(func() { s.region.unsold = false })
	s.untilDrifted("drifting-1", "", time.Minute)
}

func TestABrokenMachineIsReplacedButNotWhenManyAreBroken(t *testing.T) {
	s := tellQuickly(t)
	pool := s.pool("broken")
	pools := s.pool("brake")
	s.ready("broken-1", ownedBy(pool),
		func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: 100 * time.Hour} })
	for _, name := range []string{"brake-1", "brake-2"} {
		s.ready(name, ownedBy(pools))
	}
	for _, name := range []string{"brake-1", "brake-2", "broken-1"} {
		s.condition(name, corev1.ConditionFalse, s.clock.Now().Add(-29*time.Minute))
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metaOf("broken-1", nil)}
	s.passing(time.Second, "the broken machine is gone", gone(s, claim))
	if claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] == "" {
		t.Errorf("its pods had all the time: %v", claim.Annotations)
	}
	s.event("brake-1", "NodeRepairBlocked")
	s.must(s.api.Get(context.Background(), client.ObjectKey{Name: "brake-1"}, claim))
	if claim.DeletionTimestamp != nil {
		t.Error("two of two machines are broken, and one was given up")
	}
}

// condition sets a Node's condition Ready and its transition time, as the kubelet or the node lifecycle controller
// does.
func (s *story) condition(name string, ready corev1.ConditionStatus, since time.Time) {
	s.Helper()
	ctx := context.Background()
	n := &corev1.Node{}
	s.must(s.api.Get(ctx, client.ObjectKey{Name: name}, n))
	before := n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready,
		LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.Now(),
	}}
	s.must(s.api.Status().Patch(ctx, n, client.MergeFrom(before)))
}

// A pool whose instances do not register as Nodes reports it until the pool is changed.
func TestAPoolSaysThatItsMachinesDoNotRegister(t *testing.T) {
	s := tellQuickly(t)
	pool := s.pool("silent")
	healthy := func(want metav1.ConditionStatus, step time.Duration) {
		t.Helper()
		s.passing(step, fmt.Sprintf("NodeRegistrationHealthy is %s", want), func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
				return err
			}
			got := pool.StatusConditions(status.WithObservedOnly()).Get(karpv1.ConditionTypeNodeRegistrationHealthy)
			if got == nil || got.Status != want {
				return fmt.Errorf("condition is %v", got)
			}
			return nil
		})
	}
	s.ready("silent-0", ownedBy(pool))
	healthy(metav1.ConditionTrue, 20*time.Millisecond)
	for _, name := range []string{"silent-1", "silent-2"} {
		s.claim(name, ownedBy(pool))
		s.until(name, karpv1.ConditionTypeLaunched)
	}
	healthy(metav1.ConditionFalse, time.Minute)
	for _, name := range []string{"silent-1", "silent-2"} {
		s.passing(time.Second, name+" is gone", gone(s, &karpv1.NodeClaim{ObjectMeta: metaOf(name, nil)}))
	}
	if age := s.clock.Now().Sub(pool.CreationTimestamp.Time); age < 15*time.Minute {
		t.Errorf("they were given %v", age)
	}
	s.changed(pool, func(spec *karpv1.NodePoolSpec) { spec.Template.Labels = map[string]string{"better": "image"} })
	healthy(metav1.ConditionUnknown, time.Second)
}
