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
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

func TestAPoolThatGoesTakesItsClaimsAlongUnlessItIsToldToLeaveThem(t *testing.T) {
	now := metav1.Now()
	ref := metav1.OwnerReference{Kind: "NodePool", Name: "p", UID: "1"}
	for name, c := range map[string]struct {
		pool karpv1.NodePool
		want bool
	}{
		"it is there":          {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, true},
		"another has its name": {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, false},
		"it waits for its claims": {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{
			UID: "1", DeletionTimestamp: &now,
			Finalizers: []string{"foregroundDeletion"},
		}}, false},
		"it leaves its claims": {karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{
			UID: "1", DeletionTimestamp: &now,
			Finalizers: []string{"orphan"},
		}}, true},
	} {
		if got := keepsDependents(&c.pool, ref); got != c.want {
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
		if _, reason, message := doNotDisrupt(pod, value, noon); reason+" "+message != want {
			t.Errorf("%s: %s %s", value, reason, message)
		}
		pod.Status.StartTime = nil
		if _, reason, _ := doNotDisrupt(pod, value, noon); strings.HasPrefix(reason, "DoNotDisrupt") {
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
		if got := strings.Join(shortfalls(node, claim), "; "); got != want {
			t.Errorf("%s: %s", memory, got)
		}
	}
}

func TestANodeIsRepairedForTheConditionThatIsFirstIntolerable(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	policies := []cloud.RepairPolicy{
		{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute},
		{Condition: "AcceleratedHardwareReady", Status: "False", Toleration: 10 * time.Minute},
	}
	node := &corev1.Node{}
	for _, kind := range []corev1.NodeConditionType{"Ready", "AcceleratedHardwareReady"} {
		node.Status.Conditions = append(node.Status.Conditions,
			corev1.NodeCondition{Type: kind, Status: "False", LastTransitionTime: metav1.NewTime(noon)})
	}
	if condition, due := broken(node, policies); condition != "AcceleratedHardwareReady" ||
		!due.Equal(noon.Add(10*time.Minute)) {
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
	all := &instances{objects: &objects{state: &pendingState{}}, cloud: &slowEnd{asks: 8}}
	for ask := range 9 {
		again, err := all.terminate(t.Context(), "i-1")
		if err != nil {
			t.Fatal(err)
		}
		if want := min(firstPoll<<ask, maxPoll); ask < 8 && again != want {
			t.Errorf("ask %d: again in %s, want %s", ask, again, want)
		} else if ask == 8 && again != 0 {
			t.Errorf("it is gone, and asked for again in %s", again)
		}
	}
}

func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	s, drift := &pendingState{}, &driftDetector{}
	for _, uid := range []types.UID{"gone", "there"} {
		s.claims.update(uid, func(c *claimState) { c.launched = &cloud.LaunchResult{} })
		drift.templates.update(uid, func(*poolTemplate) {})
	}
	for _, name := range []string{"gone", "there", "launched"} {
		s.instances.update(name, func(i *instanceState) { i.gone = true })
		s.nodes.update(name, func(n *nodeState) { n.podEvent = time.Now() })
	}
	s.claims.update("there", func(c *claimState) { c.launched.Instance.ID = "launched" })
	uids, names := map[types.UID]bool{"there": true}, map[string]bool{"there": true}
	l := living{claims: uids, pools: uids, nodes: names, instances: map[string]bool{"there": true}}
	s.retain(l)
	drift.retain(l)
	for what, n := range map[string]int{
		"claims": len(s.claims.all), "nodes": len(s.nodes.all), "templates": len(drift.templates.all),
		"instances": len(s.instances.all) - 1,
	} {
		if n != 1 {
			t.Errorf("%s has %d records, want 1", what, n)
		}
	}
	if s.claims.get("there").launched == nil || !s.instances.get("launched").gone ||
		s.nodes.get("there").podEvent.IsZero() {
		t.Error("what is there is forgotten")
	}
}

// A claim that is gone takes the record of its instance along, also of one that was never written on it.
func TestTheRecordOfAnInstanceGoesWithItsClaim(t *testing.T) {
	s := &pendingState{}
	s.claims.update("1", func(c *claimState) { c.launched = &cloud.LaunchResult{Instance: cloud.Instance{ID: "i-1"}} })
	s.instances.update("i-1", func(i *instanceState) { i.terminations++ })
	s.forgetClaim("1", "")
	if len(s.claims.all)+len(s.instances.all) > 0 {
		t.Errorf("%v and %v are left", s.claims.all, s.instances.all)
	}
}

func TestAProcessThatStandsByGathersNothing(t *testing.T) {
	c, heard := &Controller{}, 0
	event := c.whileLeading(func(_, _ client.Object) { heard++ })
	event(nil, &karpv1.NodeClaim{})
	c.leading.Store(true)
	event(nil, &karpv1.NodeClaim{})
	if heard != 1 {
		t.Errorf("%d events were heard, one of them while it stood by", heard)
	}
}

func TestALaunchRequestSaysWhatTheClaimAsksFor(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "web"}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	claim.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m")}
	req, err := launchRequest(translate.NewNames(), claim)
	if err != nil || req.Requests[model.CPU] != 1500 || req.Class.Name != "default" || req.Labels["tier"] != "web" {
		t.Errorf("launch request %+v, %v", req, err)
	}
}
