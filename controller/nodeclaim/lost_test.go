package nodeclaim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/plane/planetest"
)

// spot is the only offering of the region in memory.
var spot = model.OfferingKey{Type: "m5.large", Zone: "a", CapacityType: model.Spot}

// tellQuickly starts a story on a virtual clock, set to the current time because the API server's timestamps are
// real.
func tellQuickly(t *testing.T) *story { return tellAt(t, clock.NewVirtual(time.Now())) }

// passing advances a virtual clock by step until ok succeeds.
func (s *story) passing(step time.Duration, what string, ok func(context.Context) error) {
	s.Helper()
	planetest.Eventually(s, what, func(ctx context.Context) error {
		err := ok(ctx)
		if err != nil && s.clock != nil {
			s.clock.Advance(step)
		}
		return err
	})
}

func gone(s *story, o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is there, finalizers %v", o.GetFinalizers()))
	}
}

// deletion returns a function that waits until an object is deleted and returns the resource version of its deletion.
// Resource versions are comparable across kinds.
func (s *story) deletion(o client.Object, list client.ObjectList) func() int {
	s.Helper()
	w, err := s.api.Watch(s.Context(), list, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{"metadata.name": o.GetName()})
	s.must(err)
	s.Cleanup(w.Stop)
	return func() int {
		for e := range w.ResultChan() {
			if e.Type == watch.Deleted {
				version, err := strconv.Atoi(e.Object.(client.Object).GetResourceVersion())
				s.must(err)
				return version
			}
		}
		s.Fatalf("the watch of %s ended", o.GetName())
		return 0
	}
}

// event waits for an event and returns its message.
func (s *story) event(object, reason string) (message string) {
	s.Helper()
	planetest.Eventually(s, fmt.Sprintf("an event %s of %s", reason, object), func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.api.List(ctx, &events, client.InNamespace("default")); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reason && e.InvolvedObject.Name == object {
				message = e.Message
				return nil
			}
		}
		return errors.New("there is none")
	})
	return message
}

// unready sets a Node's condition to unknown, as the node lifecycle controller does when a kubelet stops reporting.
func (s *story) unready(name string) {
	s.Helper()
	planetest.Eventually(s, "Node "+name+" says it is not ready", func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := s.api.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			LastTransitionTime: metav1.Now(),
		}}
		return s.api.Status().Update(ctx, n)
	})
}

// free removes an object's finalizers, whatever others write to it.
func (s *story) free(o client.Object) {
	s.Helper()
	before := o.DeepCopyObject().(client.Object)
	o.SetFinalizers(nil)
	s.must(s.api.Patch(context.Background(), o, client.MergeFrom(before)))
}

// A reservation ends and its instances run on, at the on-demand price.
func TestAMachineWhoseReservationHasEndedIsOnDemand(t *testing.T) {
	s := tellQuickly(t)
	reserved := map[string]string{
		karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved, ec2v1.LabelCapacityReservationID: "cr-1",
		ec2v1.LabelCapacityReservationType: "default",
	}
	claim := s.ready("ended", func(c *karpv1.NodeClaim) { c.Labels = map[string]string{"team": "a"} })
	node := &corev1.Node{ObjectMeta: metaOf("ended", nil)}
	reserve := func(o client.Object) {
		planetest.Eventually(t, fmt.Sprintf("%T is reserved", o), func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			maps.Copy(o.GetLabels(), reserved)
			return s.api.Update(ctx, o)
		})
	}
	untilOnDemand := func(o client.Object) {
		s.passing(time.Second, fmt.Sprintf("%T is on-demand", o), func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if labels := o.GetLabels(); labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeOnDemand ||
				labels[ec2v1.LabelCapacityReservationID]+labels[ec2v1.LabelCapacityReservationType] != "" ||
				labels["team"] != "a" {
				return fmt.Errorf("labels are %v", labels)
			}
			return nil
		})
	}
	reserve(claim)
	reserve(node)
	s.region.set(func() { s.region.machines["i-ended"].CapacityType = model.OnDemand })
	untilOnDemand(claim)
	untilOnDemand(node)
	reserve(node) // as if the write of the Node had failed
	untilOnDemand(node)
}

func TestAMachineWithoutClaimIsTerminatedButNotOneThatIsBeingLaunched(t *testing.T) {
	s := tellQuickly(t)
	hold := make(chan struct{})
	s.region.set(func() { s.region.hold = hold })
	s.claim("flying")
	planetest.Eventually(t, "the launch is under way", func(context.Context) error {
		if n, _ := s.region.count(); n != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, id := range []string{"i-stray-1", "i-stray-2"} { // the second shows that the first list of instances is done
		launched := s.clock.Now()
		s.region.stray(id, "nobody", launched)
		node := s.node(strings.TrimPrefix(id, "i-"))
		// 6 s pass before its age is 30 s: by then the Node is known
		s.passing(100*time.Millisecond, id+" is terminated", func(context.Context) error {
			if got := s.region.state(id); got == cloud.Running {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
		if age := s.clock.Now().Sub(launched); age < 30*time.Second {
			t.Errorf("%s was terminated at the age of %v: its claim may not be visible yet", id, age)
		}
		s.passing(time.Second, "its Node goes with it, however ready it seems", gone(s, node))
	}
	if got := s.region.state("i-flying"); got != cloud.Running {
		t.Errorf("the machine that is being launched is %q", got)
	}
	close(hold)
	s.until("flying", karpv1.ConditionTypeLaunched)
}

func TestAClaimWhoseMachineVanishedGoes(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("vanished")
	other := s.ready("remains")
	guarded := map[string]string{"app": "guarded"}
	lost := []*corev1.Pod{
		s.pod("lost", "vanished"), s.pod("guarded", "vanished", func(p *corev1.Pod) { p.Labels = guarded }),
		s.pod("ending", "vanished"),
	}
	lost[1].Status.Phase = corev1.PodRunning // budgets ignore pods that never ran
	s.must(s.api.Status().Update(context.Background(), lost[1]))
	s.delete(lost[2])
	daemon := s.pod("daemon", "vanished", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true),
		}}
	})
	s.must(s.api.Create(context.Background(), &policyv1.PodDisruptionBudget{ // allows no eviction: no pod is ready
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "guarded"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: guarded},
		},
	}))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "vanished"}}
	podGoes, nodeGoes := s.deletion(lost[0], &corev1.PodList{}), s.deletion(node, &corev1.NodeList{})
	s.region.set(func() { delete(s.region.machines, "i-vanished") })
	s.unready("vanished")
	s.passing(time.Second, "the claim is gone", gone(s, claim))
	s.passing(time.Second, "its Node no longer exists", gone(s, node))
	if pod, node := podGoes(), nodeGoes(); pod > node {
		t.Errorf("the pod went at %d, after its Node at %d", pod, node)
	}
	for _, pod := range lost {
		s.passing(time.Second, "pod "+pod.Name+" is gone: nothing runs it", gone(s, pod))
	}
	s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(daemon), daemon)) // left to Kubernetes to collect
	s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(other), other))
	if other.DeletionTimestamp != nil {
		t.Error("a claim whose machine is there was deleted")
	}
}

// Without the claim, only the garbage collector would find the instance, minutes later; meanwhile it would register
// as a Node.
func TestAMachineEndsWithItsClaimThoughTheClaimNamesAnother(t *testing.T) {
	s := tellQuickly(t)
	claim := s.claim("misnamed")
	s.until("misnamed", karpv1.ConditionTypeLaunched)
	planetest.Eventually(t, "the claim names another machine", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		claim.Status.ProviderID = "aws:///a/i-another"
		return s.api.Status().Update(ctx, claim)
	})
	s.delete(claim)
	s.passing(100*time.Millisecond, "the claim is gone", gone(s, claim))
	s.started(1, 0)
}

// The instance keeps running, and plans would keep placing pods on it.
func TestAClaimWhoseNodeWasTakenAwayGoes(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("bereft")
	node := &corev1.Node{}
	s.must(s.api.Get(context.Background(), client.ObjectKey{Name: "bereft"}, node))
	s.free(node)
	orphan := s.pod("orphan", "bereft")
	s.delete(node)
	s.passing(time.Second, "the claim is gone", gone(s, claim))
	s.passing(time.Second, "the pod goes with the machine", gone(s, orphan))
	s.started(1, 0)
}

// A kubelet whose Node was deleted recreates it with the taint that keeps pods off: the claim adopts it again.
func TestANodeThatComesASecondTimeIsTakenAgain(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("again")
	node := &corev1.Node{}
	s.must(s.api.Get(context.Background(), client.ObjectKey{Name: "again"}, node))
	first := node.UID
	s.free(node)
	s.delete(node)
	s.node("again")
	taken := func(label string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := s.api.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}
			if node.UID == first || node.Labels[label] != "true" ||
				node.Labels[karpv1.NodePoolLabelKey] != claim.Labels[karpv1.NodePoolLabelKey] {
				return fmt.Errorf("labels are %v", node.Labels)
			}
			if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey }) {
				return fmt.Errorf("taints are %v", node.Spec.Taints)
			}
			return nil
		}
	}
	s.passing(20*time.Millisecond, "the Node is registered", taken(karpv1.NodeRegisteredLabelKey))
	if node.Labels[karpv1.NodeInitializedLabelKey] == "true" ||
		!slices.Contains(node.Finalizers, karpv1.TerminationFinalizer) {
		t.Errorf("a Node that is not ready: %v", node.ObjectMeta)
	}
	s.boot("again")
	s.passing(20*time.Millisecond, "the Node is initialized", taken(karpv1.NodeInitializedLabelKey))
	s.started(1, 1)
}

func TestASpotInterruptionEndsAClaimAndItsOfferingIsAvoidedForAWhile(t *testing.T) {
	s := tell(t)
	advised, taken := s.ready("advised"), s.ready("taken")
	s.region.set(func() {
		s.region.notices = []cloud.Interruption{
			{InstanceIDs: []string{"i-advised"}, Kind: cloud.RebalanceRecommendation, Handle: "1"},
			{InstanceIDs: []string{"i-unknown"}, Kind: cloud.SpotInterruption, Handle: "2"},
			{InstanceIDs: []string{"i-taken"}, Kind: cloud.SpotInterruption, Handle: "3"},
		}
	})
	s.untilGone(taken)
	for object, reason := range map[string]string{"taken": "SpotInterrupted", "advised": "SpotRebalanceRecommendation"} {
		s.event(object, reason)
	}
	s.event("taken", "TerminatingOnInterruption")
	planetest.Eventually(t, "the notices are done with", func(context.Context) error {
		s.region.mu.Lock()
		defer s.region.mu.Unlock()
		if n := len(s.region.notices); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(advised), advised))
	if advised.DeletionTimestamp != nil {
		t.Error("a recommendation ended a claim")
	}
	s.claim("after")
	s.until("after", karpv1.ConditionTypeLaunched)
	if !s.region.avoided()[spot] {
		t.Error("the next launch was not told to avoid the interrupted offering")
	}
	s.claim("later") // a launch has obtained the offering meanwhile
	s.until("later", karpv1.ConditionTypeLaunched)
	if s.region.avoided()[spot] {
		t.Error("an offering that could be had is still avoided")
	}
}

func TestOfferingsThatRanOutOnTheWayAreNamedInAnEvent(t *testing.T) {
	s := tell(t)
	dry := model.OfferingKey{Type: "m5.xlarge", Zone: "b", CapacityType: model.OnDemand}
	s.region.set(func() { s.region.empty = []model.OfferingKey{dry} })
	s.claim("nextbest")
	s.until("nextbest", karpv1.ConditionTypeLaunched)
	if got := s.event("nextbest", "InsufficientCapacityError"); !strings.Contains(got, "on-demand m5.xlarge in b") {
		t.Errorf("the event says %q", got)
	}
	s.region.set(func() { s.region.empty = nil })
	s.claim("warned")
	s.until("warned", karpv1.ConditionTypeLaunched)
	if !s.region.avoided()[dry] {
		t.Error("the next launch was not told what ran out")
	}
}

func TestAnIdleMachineBecomesConsolidatableAfterAWhile(t *testing.T) {
	s := tellQuickly(t)
	ctx := context.Background()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "idle-pool"}}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: "default",
	}
	pool.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never")
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} // it could be consolidated, but the budget forbids it
	s.must(s.api.Create(ctx, pool))
	t.Cleanup(func() { _ = s.api.Delete(ctx, pool) })

	claim := s.ready("idle", func(c *karpv1.NodeClaim) { c.Labels = map[string]string{karpv1.NodePoolLabelKey: pool.Name} })
	if claim.StatusConditions(status.WithObservedOnly()).IsTrue(karpv1.ConditionTypeConsolidatable) {
		t.Error("it is consolidatable at once")
	}
	since := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).LastTransitionTime.Time
	consolidatable := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			s.must(s.api.Get(ctx, client.ObjectKeyFromObject(claim), claim))
			if got := claim.StatusConditions(status.WithObservedOnly()).IsTrue(karpv1.ConditionTypeConsolidatable); got != want {
				return fmt.Errorf("Consolidatable is %v", got)
			}
			return nil
		}
	}
	s.passing(time.Second, "the idle machine is consolidatable", consolidatable(true))
	if idle := s.clock.Now().Sub(since); idle < 30*time.Second {
		t.Errorf("it was consolidatable after %v", idle)
	}
	before := pool.DeepCopy()
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	s.must(s.api.Patch(ctx, pool, client.MergeFrom(before)))
	s.passing(time.Second, "it is not, once its pool says Never", consolidatable(false))
}

func TestAClaimExpires(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("old", func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("1h") })
	endless := s.ready("endless",
		func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never") })
	s.clock.Advance(59 * time.Minute)
	s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(claim), claim))
	if claim.DeletionTimestamp != nil {
		t.Fatal("it went too early")
	}
	s.passing(time.Second, "the claim is gone", gone(s, claim))
	s.event("old", "Expired")
	if at := claim.CreationTimestamp.Add(time.Hour); s.clock.Now().Before(at) {
		t.Errorf("it went %v too early", at.Sub(s.clock.Now()))
	}
	s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(endless), endless))
	if endless.DeletionTimestamp != nil {
		t.Error("a claim that never expires went too")
	}
}

func (s *story) untilLaunchFailed(c *karpv1.NodeClaim) {
	s.Helper()
	planetest.Eventually(s, "the claim says that its launch failed", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if got := c.StatusConditions(status.WithObservedOnly()).Get(karpv1.ConditionTypeLaunched); got == nil ||
			got.Reason != "LaunchFailed" {
			return fmt.Errorf("condition is %v", got)
		}
		return nil
	})
}

func TestAMachineThatIsNotListedYetIsWaitedFor(t *testing.T) {
	s := tellQuickly(t)
	s.region.set(func() { s.region.lose, s.region.hidden = errors.New("the answer is lost"), true })
	claim := s.claim("unlisted")
	s.untilLaunchFailed(claim)
	s.delete(claim)
	var first time.Time // after 10 s the claim is released
	planetest.Eventually(s, "its machine is looked for twice", func(context.Context) error {
		s.region.mu.Lock()
		lists := s.region.lists
		s.region.mu.Unlock()
		if lists >= 2 {
			return nil
		}
		if lists == 1 && first.IsZero() {
			first = s.clock.Now()
		}
		if first.IsZero() || s.clock.Now().Sub(first) < 9*time.Second {
			s.clock.Advance(lookStep / 10)
		}
		return fmt.Errorf("%d times", lists)
	})
	s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(claim), claim))
	s.region.set(func() { s.region.hidden = false })
	s.passing(lookStep, "the claim is gone", gone(s, claim))
	s.started(1, 0)
}

// lookStep is how far the clock advances per step while an instance is searched for.
const lookStep = 100 * time.Millisecond

func TestAClaimThatSurelyWasNotLaunchedGoesAtOnce(t *testing.T) {
	s := tellQuickly(t)
	// An earlier process may have launched the claims that exist when the controller takes the lead.
	s.claim("shows-that-it-leads")
	s.until("shows-that-it-leads", karpv1.ConditionTypeLaunched)
	s.region.set(func() { s.region.fail = fmt.Errorf("no permission: %w", cloud.ErrUnauthorized) })
	claim := s.claim("refused")
	s.untilLaunchFailed(claim)
	deleted := s.clock.Now()
	s.delete(claim)
	is := gone(s, claim)
	planetest.Eventually(s, "the claim is gone within 5 s", func(ctx context.Context) error {
		err := is(ctx)
		if err != nil && s.clock.Now().Sub(deleted) < 5*time.Second {
			s.clock.Advance(lookStep / 10)
		}
		return err
	})
}

func TestAClaimOfAnEarlierProcessIsLookedForUntilListsHaveSettled(t *testing.T) {
	s := tellQuickly(t)
	s.region.set(func() { s.region.fail = fmt.Errorf("no permission: %w", cloud.ErrUnauthorized) })
	claim := s.claim("inherited")
	s.untilLaunchFailed(claim)
	s.stop()
	s.delete(claim)
	restarted := s.clock.Now()
	s.stop = s.start()
	s.passing(lookStep, "the claim is gone", gone(s, claim))
	if took := s.clock.Now().Sub(restarted); took < 10*time.Second {
		t.Errorf("its machine was looked for only %v", took)
	}
}

// A new process may find no offering to launch, while its predecessor launched one and could not record it.
func TestNoCapacityNowIsNoProofThatThereWasNone(t *testing.T) {
	s := tellQuickly(t)
	s.region.set(func() { s.region.lose = errors.New("the answer is lost") })
	claim := s.claim("launched-before")
	s.untilLaunchFailed(claim)
	s.stop()
	s.region.set(func() { s.region.lose, s.region.fail = nil, fmt.Errorf("no offering: %w", cloud.ErrNoCapacity) })
	s.stop = s.start()
	s.passing(lookStep, "the claim is gone", gone(s, claim))
	s.started(1, 0)
}
