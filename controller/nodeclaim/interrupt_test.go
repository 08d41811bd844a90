package nodeclaim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/plane/planetest"
)

// pod creates a pod bound to a Node.
func (s *story) pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "pause"}}
	for _, f := range change {
		f(p)
	}
	s.must(s.api.Create(context.Background(), p))
	return p
}

func TestAnInterruptionThatWasNotedBeforeACrashIsCarriedOutAfterIt(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("noted")
	s.stop()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, translate.AnnotationInterrupted,
		translate.Interruption("spot_interrupted", s.clock.Now()))
	s.must(s.api.Patch(context.Background(), claim, client.RawPatch(types.MergePatchType, []byte(patch))))
	s.stop = s.start()
	s.event("noted", "TerminatingOnInterruption")
	s.passing(time.Second, "the claim is gone", gone(s, claim))
	s.started(1, 0)
}

func TestNoticesComeTwiceLateAndUnreadable(t *testing.T) {
	s := tellQuickly(t)
	claim, stopped := s.ready("twice"), s.ready("stopped")
	notice := func(handle string, kind cloud.InterruptionKind, ids ...string) cloud.Interruption {
		return cloud.Interruption{InstanceIDs: ids, Kind: kind, Handle: handle, At: s.clock.Now()}
	}
	s.region.set(func() {
		s.region.notices = []cloud.Interruption{
			// the warning arrives after the end
			notice("1", cloud.InstanceTerminating, "i-stopped"), notice("2", cloud.SpotInterruption, "i-stopped"),
			notice("3", cloud.SpotInterruption, "i-twice"), notice("4", cloud.SpotInterruption, "i-twice"),
			notice("5", cloud.NoOp),
			{Kind: cloud.Malformed, Note: "not JSON", Handle: "6"},
			notice("7", cloud.SpotInterruption, "i-nobody"),
			notice("8", "something new", "i-twice"),
		}
	})
	s.passing(100*time.Millisecond, "all notices are done with", func(context.Context) error {
		s.region.mu.Lock()
		defer s.region.mu.Unlock()
		if n := len(s.region.notices); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	s.passing(time.Second, "one claim is gone", gone(s, claim))
	s.passing(time.Second, "the other one too", gone(s, stopped))
	s.event("stopped", "InstanceTerminating")
	s.started(2, 0)
}

// A node that fails the cloud's status checks is removed with its pods: nothing that protects the pods is respected.
func TestAMachineThatFailsTheCloudsChecksIsForcedOut(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("broken")
	held := s.pod("held", "broken", func(p *corev1.Pod) {
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	})
	s.region.set(func() {
		s.region.ailing = []cloud.Interruption{
			{InstanceIDs: []string{"i-broken"}, Kind: cloud.InstanceFailed, At: s.clock.Now()},
			{InstanceIDs: []string{"i-somebody-elses"}, Kind: cloud.SystemFailed, At: s.clock.Now()},
		}
	})
	s.passing(time.Second, "the claim is being deleted, and its time is up", func(ctx context.Context) error {
		s.must(s.api.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		if claim.DeletionTimestamp == nil {
			return errors.New("it is not deleted")
		}
		if at, err := time.Parse(time.RFC3339,
			claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]); err != nil || at.After(s.clock.Now()) {
			return fmt.Errorf("its time ends at %v, %v", at, err)
		}
		return nil
	})
	s.event("broken", "InstanceUnhealthy")
	planetest.Eventually(t, "the pod is deleted although it may not be disrupted", func(ctx context.Context) error {
		p := &corev1.Pod{}
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(held), p); err != nil {
			return client.IgnoreNotFound(err)
		}
		if p.DeletionTimestamp == nil {
			return errors.New("it is not")
		}
		s.must(client.IgnoreNotFound(s.api.Delete(ctx, p, client.GracePeriodSeconds(0)))) // as its kubelet would
		return nil
	})
	s.passing(time.Second, "the claim is gone", gone(s, claim))
}

func TestAnInterruptedMachineTakesNoNewPods(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("refusing")
	s.pod("stays", "refusing", func(p *corev1.Pod) {
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	})
	s.region.set(func() {
		s.region.notices = []cloud.Interruption{{
			InstanceIDs: []string{"i-refusing"}, Kind: cloud.ScheduledChange,
			Handle: "1",
		}}
	})
	node := &corev1.Node{}
	s.passing(100*time.Millisecond, "its Node is tainted", func(ctx context.Context) error {
		s.must(s.api.Get(ctx, client.ObjectKey{Name: "refusing"}, node))
		if !slices.ContainsFunc(node.Spec.Taints,
			func(t corev1.Taint) bool { return t.MatchTaint(&karpv1.DisruptedNoScheduleTaint) }) {
			return errors.New("it is not")
		}
		return nil
	})
	s.passing(100*time.Millisecond, "its claim is deleted", func(ctx context.Context) error {
		s.must(s.api.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		if claim.DeletionTimestamp == nil {
			return errors.New("it is not")
		}
		return nil
	})
	if kind, _, ok := translate.Interrupted(claim); !ok || kind != "scheduled_change" {
		t.Errorf("the claim says %v", claim.Annotations)
	}
	s.must(s.api.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(s.ns), client.GracePeriodSeconds(0)))
	s.passing(time.Second, "the claim is gone", gone(s, claim))
}

// The claim says so, and its drain waits for nothing that can be left out.
func TestAMachineThatIsReclaimedDuringItsDrainSaysSo(t *testing.T) {
	s := tellQuickly(t)
	claim := s.ready("draining")
	s.pod("stays", "draining", func(p *corev1.Pod) {
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	})
	s.delete(claim)
	s.region.set(func() {
		s.region.notices = []cloud.Interruption{{
			InstanceIDs: []string{"i-draining"}, Kind: cloud.SpotInterruption, Handle: "1",
		}}
	})
	s.passing(100*time.Millisecond, "its claim is interrupted", func(ctx context.Context) error {
		s.must(s.api.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		if kind, _, ok := translate.Interrupted(claim); !ok || kind != "spot_interrupted" {
			return fmt.Errorf("its annotations are %v", claim.Annotations)
		}
		return nil
	})
	s.must(s.api.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(s.ns), client.GracePeriodSeconds(0)))
	s.passing(time.Second, "the claim is gone", gone(s, claim))
}
