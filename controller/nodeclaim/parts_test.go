package nodeclaim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

func TestAPoolThatGoesTakesItsClaimsAlongUnlessItIsToldToLeaveThem(t *testing.T) {
	now := metav1.Now()
	ref := metav1.OwnerReference{Kind: "NodePool", Name: "p", UID: "1"}
	for name, c := range map[string]struct {
		pool karpv1.NodePool
		want bool
	}{
		"it is there":             {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, true},
		"another has its name":    {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, false},
		"it waits for its claims": {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "1", DeletionTimestamp: &now, Finalizers: []string{"foregroundDeletion"}}}, false},
		"it leaves its claims":    {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "1", DeletionTimestamp: &now, Finalizers: []string{"orphan"}}}, true},
	} {
		if got := keeps(&c.pool, ref); got != c.want {
			t.Errorf("%s: kept %v", name, got)
		}
	}
}

func TestWhatBecomesOfDoNotDisruptIsSaid(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]string{
		"10m": "DoNotDisruptUntil The karpenter.sh/do-not-disrupt grace period will elapse at 2026-06-01T12:05:00Z",
		"5m":  "DoNotDisruptGracePeriodElapsed The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable",
		"-5m": `InvalidDoNotDisruptAnnotation Invalid karpenter.sh/do-not-disrupt annotation: duration "-5m" must be positive, ignoring annotation`,
		"yes": `InvalidDoNotDisruptAnnotation Invalid karpenter.sh/do-not-disrupt annotation: "yes" is neither "true" nor a duration such as 30m, ignoring annotation`,
	} {
		started := metav1.NewTime(noon.Add(-5 * time.Minute))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: value}}, Status: corev1.PodStatus{StartTime: &started}}
		if _, reason, message := heldState(pod, value, noon); reason+" "+message != want {
			t.Errorf("%s: %s %s", value, reason, message)
		}
		pod.Status.StartTime = nil
		if _, reason, _ := heldState(pod, value, noon); strings.HasPrefix(reason, "DoNotDisrupt") {
			t.Errorf("%s, not started: %s", value, reason)
		}
	}
}

func TestAMachineThatIsMuchSmallerThanPromisedIsInconsistent(t *testing.T) {
	amounts := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{"memory": resource.MustParse(memory), "cpu": resource.MustParse("2")}
	}
	claim := &karpv1.NodeClaim{}
	claim.Spec.Resources.Requests = amounts("1Gi")
	claim.Status.Capacity = amounts("128Gi")
	node := &corev1.Node{}
	for memory, want := range map[string]string{
		"116Gi": "", "64Gi": "expected 128Gi of resource memory, but found 64Gi (50.0% of expected)",
	} {
		node.Status.Capacity = amounts(memory)
		if got := strings.Join(lacking(node, claim), "; "); got != want {
			t.Errorf("%s: %s", memory, got)
		}
	}
}

func TestANodeIsRepairedForTheConditionThatIsFirstIntolerable(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	policies := []cloud.RepairPolicy{
		{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute}, {Condition: "AcceleratedHardwareReady", Status: "False", Toleration: 10 * time.Minute},
	}
	node := &corev1.Node{}
	for _, kind := range []corev1.NodeConditionType{"Ready", "AcceleratedHardwareReady"} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: "False", LastTransitionTime: metav1.NewTime(noon)})
	}
	if condition, due := broken(node, policies); condition != "AcceleratedHardwareReady" || !due.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("%s from %s on", condition, due)
	}
	node.Status.Conditions[1].Status = "True"
	if condition, due := broken(node, policies); condition != "Ready" || !due.Equal(noon.Add(30*time.Minute)) {
		t.Errorf("%s from %s on", condition, due)
	}
}

// slowEnd is a cloud whose instance is gone when it was asked for its end so many times.
type slowEnd struct {
	cloud.Provider
	asks int
}

func (c *slowEnd) Terminate(context.Context, string) error {
	if c.asks--; c.asks < 0 {
		return fmt.Errorf("terminate: %w", cloud.ErrNotFound)
	}
	return nil
}

// A NodeClaim is there as long as its instance is: who sees it go must not find the instance on the bill.
func TestTheEndOfAnInstanceIsWaitedFor(t *testing.T) {
	l := &Lifecycle{memory: newMemory(), o: Options{Cloud: &slowEnd{asks: 8}}}
	for ask := range 9 {
		again, err := l.terminate(t.Context(), "i-1")
		if err != nil {
			t.Fatal(err)
		}
		if want := min(firstPoll<<ask, mostPoll); ask < 8 && again != want {
			t.Errorf("ask %d: again in %s, want %s", ask, again, want)
		} else if ask == 8 && again != 0 {
			t.Errorf("it is gone, and asked for again in %s", again)
		}
	}
}

func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	m := newMemory()
	for _, uid := range []types.UID{"gone", "there"} {
		m.launched[uid], m.tried[uid], m.sent[uid], m.looked[uid], m.failed[uid] = cloud.LaunchResult{}, true, true, time.Now(), true
		m.drifts[uid], m.checked[uid], m.deleted[uid], m.templates[uid] = driftCheck{}, time.Now(), time.Now(), template{}
	}
	for _, name := range []string{"gone", "there"} {
		m.gone[name], m.polls[name], m.podEvents[name], m.refusals[name] = true, 1, time.Now(), refusal{}
	}
	m.keep(map[types.UID]bool{"there": true}, map[string]bool{"there": true}, map[string]bool{"there": true})
	for what, n := range map[string]int{
		"launched": len(m.launched), "tried": len(m.tried), "sent": len(m.sent), "looked": len(m.looked), "failed": len(m.failed), "drifts": len(m.drifts),
		"checked": len(m.checked), "deleted": len(m.deleted), "templates": len(m.templates), "gone": len(m.gone), "polls": len(m.polls),
		"podEvents": len(m.podEvents), "refusals": len(m.refusals),
	} {
		if n != 1 {
			t.Errorf("%s has %d entries, want 1", what, n)
		}
	}
}

func TestAProcessThatStandsByGathersNothing(t *testing.T) {
	l, heard := &Lifecycle{}, 0
	event := l.whileLeading(func(_, _ client.Object) { heard++ })
	event(nil, &karpv1.NodeClaim{})
	l.leads.Store(true)
	event(nil, &karpv1.NodeClaim{})
	if heard != 1 {
		t.Errorf("%d events were heard, one of them while it stood by", heard)
	}
}
