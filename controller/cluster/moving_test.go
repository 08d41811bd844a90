package cluster

import (
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// going adds node n with claim c, which is being deleted.
func going(w *State, change ...func(*karpv1.NodeClaim)) {
	w.Update(nodeOf("n", 1))
	c := claimOf("c", "n", 2)
	c.DeletionTimestamp = &metav1.Time{Time: noon}
	for _, f := range change {
		f(c)
	}
	w.Update(c)
}

// movers names the pods that have to be rescheduled, with the node they are on.
func movers(s *model.Snapshot) string {
	var out []string
	for _, p := range s.Pending {
		if p.From != "" {
			out = append(out, p.Name+"@"+p.From)
		}
	}
	return strings.Join(out, " ")
}

func budgetOf(name string, version int, app string, allowed int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: meta(name, version)}
	b.Namespace = "default"
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	b.Status.DisruptionsAllowed = allowed
	return b
}

// labelled returns a pod on n with label app.
func labelled(name, app string, version int) *corev1.Pod {
	p := podOf(name, "n", "1", version)
	p.Labels = map[string]string{"app": app}
	return p
}

func TestPodsOfAMachineThatGoesWaitForTheirNextPlace(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(claimOf("c", "n", 2))
	early := podOf("early", "n", "1", 3)
	early.CreationTimestamp.Time = noon.Add(-time.Hour)
	w.Update(early)
	w.Update(podOf("z-late", "n", "1", 4))
	w.Update(podOf("middle", "", "2", 5))
	daemon, over, yes := podOf("daemon", "n", "1", 6), podOf("over", "n", "1", 7), true
	daemon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
	over.Status.Phase = corev1.PodSucceeded
	w.Update(daemon)
	w.Update(over)
	before := w.Snapshot()
	if len(before.Pending) != 1 || len(before.Nodes[0].Pods) != 4 {
		t.Fatalf("before: %+v", before)
	}
	c := claimOf("c", "n", 8)
	c.DeletionTimestamp = &metav1.Time{Time: noon}
	w.Update(c)
	s := w.Snapshot()
	if got := s.Pending; len(got) != 3 || got[0].Name != "early" || got[1].Name != "middle" || got[1].From != "" ||
		movers(s) != "early@n z-late@n" {
		t.Errorf("pending: %+v", got)
	}
	if n := s.Nodes[0]; len(n.Pods) != 2 || !n.Deleting || s.Shapes[s.Pending[0].Shape].Requests[model.CPU] != 1000 {
		t.Errorf("node: %+v", n)
	}
	if len(before.Pending) != 1 {
		t.Error("the first snapshot was changed")
	}
	w.Delete(podOf("early", "n", "1", 9))
	if got := movers(w.Snapshot()); got != "z-late@n" {
		t.Errorf("one has left: %s", got)
	}
}

func TestOnlyWhoWillComeAgainLeavesItsMachine(t *testing.T) {
	yes := true
	ending := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: &yes}}
		}
	}
	held := func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} }
	grace := func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour} }
	victim := func(method model.Method, and func(*karpv1.NodeClaim)) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) {
			c.DeletionTimestamp = nil
			c.Annotations = map[string]string{translate.AnnotationCommand: translate.Command{
				ID: "x", Method: method, Victims: []translate.Victim{{Claim: "c"}}, Since: noon,
			}.Text()}
			and(c)
		}
	}
	for name, c := range map[string]struct {
		pod   func(*corev1.Pod)
		claim func(*karpv1.NodeClaim)
		moves bool
	}{
		"a Deployment's pod that ends":   {ending("ReplicaSet"), nil, false},
		"a StatefulSet's pod that ends":  {ending("StatefulSet"), nil, true},
		"do-not-disrupt":                 {held, nil, false},
		"do-not-disrupt, but a deadline": {held, grace, true},
		"an ordinary pod":                {func(*corev1.Pod) {}, nil, true},

		"do-not-disrupt, a deadline, and a command that waits for it": {held, victim(model.Underutilized, grace), false},
		"do-not-disrupt, a deadline, and a command that does not":     {held, victim(model.Drifted, grace), true},
		"a command that would wait, but the claim is being deleted": {held, victim(model.Underutilized,
			func(c *karpv1.NodeClaim) { grace(c); c.DeletionTimestamp = &metav1.Time{Time: noon} }), true},
		"an ordinary pod, a deadline and a command": {func(*corev1.Pod) {}, victim(model.Underutilized, grace), true},
		"the machine is only to be looked": {
			func(*corev1.Pod) {},
			func(c *karpv1.NodeClaim) { c.DeletionTimestamp = nil }, false,
		},
		"the machine is a command's victim": {
			func(*corev1.Pod) {}, victim(model.Drifted, func(*karpv1.NodeClaim) {}), true,
		},
	} {
		w, _ := fresh()
		if c.claim == nil {
			c.claim = func(*karpv1.NodeClaim) {}
		}
		going(w, c.claim)
		p := podOf("p", "n", "1", 3)
		c.pod(p)
		w.Update(p)
		if s := w.Snapshot(); (movers(s) == "p@n") != c.moves {
			t.Errorf("%s: %q", name, movers(s))
		}
	}
}

func TestATaintAloneIsNoReasonToLaunch(t *testing.T) {
	w, _ := fresh()
	n := nodeOf("n", 1)
	n.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
	w.Update(n)
	w.Update(claimOf("c", "n", 2))
	w.Update(podOf("p", "n", "1", 3))
	if s := w.Snapshot(); movers(s) != "" || !s.Nodes[0].Deleting || s.Nodes[0].Command != "" {
		t.Errorf("%+v", s)
	}
}

// No selector covers no pod, an empty one covers all, and both are written alike.
func TestABudgetWhoseSelectorBecomesEmptyHoldsAllPods(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(claimOf("c", "n", 2))
	w.Update(generation(labelled("a", "web", 3)))
	held := func() string { return w.Snapshot().Nodes[0].Pods[0].EvictionBlocked }
	b := budgetOf("b", 4, "web", 0)
	b.Spec.Selector = nil
	w.Update(b)
	if got := held(); got != "" {
		t.Errorf("without a selector: %q", got)
	}
	b = budgetOf("b", 5, "web", 0)
	b.Spec.Selector = &metav1.LabelSelector{}
	w.Update(b)
	if got := held(); got != "PodDisruptionBudget default/b allows no eviction" {
		t.Errorf("with an empty selector: %q", got)
	}
	b = budgetOf("b", 6, "web", 0)
	b.Spec.Selector = nil
	w.Update(b)
	if got := held(); got != "" {
		t.Errorf("without a selector again: %q", got)
	}
}

func TestABudgetHoldsPods(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	w.Update(claimOf("c", "n", 2))
	w.Update(generation(labelled("a", "web", 3)))
	held := func() string { return w.Snapshot().Nodes[0].Pods[0].EvictionBlocked }
	say := func(what string, got bool) {
		t.Helper()
		if !got {
			t.Errorf("%s: %q", what, held())
		}
	}
	w.Update(budgetOf("b", 4, "web", 0))
	say("none allowed", held() == "PodDisruptionBudget default/b allows no eviction")
	changed(w)
	w.Update(budgetOf("b", 5, "web", 1))
	say("one allowed", changed(w) && held() == "")
	w.Update(budgetOf("second", 6, "web", 1))
	say("two budgets", strings.Contains(held(), "default/b and default/second"))
	w.Update(budgetOf("second", 7, "db", 1))
	say("of another workload", held() == "")
	w.Update(budgetOf("b", 8, "web", 0))
	always := budgetOf("b", 9, "web", 0)
	policy := policyv1.AlwaysAllow
	always.Spec.UnhealthyPodEvictionPolicy = &policy
	sick := generation(labelled("a", "web", 10))
	sick.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	w.Update(sick)
	say("unhealthy, which does not matter", held() != "")
	w.Update(always)
	say("unhealthy pods may go", held() == "")
	w.Update(generation(labelled("a", "web", 11)))
	say("it is healthy again", held() != "")
	w.Delete(always)
	say("the budget is gone", held() == "")
}

func TestABudgetThatBlocksForEverKeepsItsPodsFromMoving(t *testing.T) {
	none, all := intstr.FromInt32(0), intstr.FromString("100%")
	for _, spec := range []policyv1.PodDisruptionBudgetSpec{{MaxUnavailable: &none}, {MinAvailable: &all}} {
		w, _ := fresh()
		going(w)
		w.Update(labelled("a", "web", 3))
		b := budgetOf("b", 4, "web", 0)
		w.Update(b)
		if movers(w.Snapshot()) != "a@n" {
			t.Fatal("a budget that is only used up now says nothing about later")
		}
		blocks := budgetOf("b", 5, "web", 0)
		blocks.Spec.MaxUnavailable, blocks.Spec.MinAvailable = spec.MaxUnavailable, spec.MinAvailable
		w.Update(blocks)
		if movers(w.Snapshot()) != "" {
			t.Error("it moves all the same")
		}
	}
}

func TestTheClockAloneIsNewsToo(t *testing.T) {
	w, c := fresh() // a minute past noon
	w.Update(nodeOf("n", 1))
	held := podOf("a", "n", "1", 2)
	held.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "10m"}
	held.Status.StartTime = &metav1.Time{Time: noon}
	w.Update(held)
	pool, hours := poolOf("p", 3), "0 13 * * *"
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{
		Nodes: "0", Schedule: &hours,
		Duration: &metav1.Duration{Duration: time.Hour},
	}}
	w.Update(pool)
	w.Snapshot()
	changed(w)
	for _, at := range []time.Duration{10 * time.Minute, time.Hour, 2 * time.Hour} {
		c.Advance(noon.Add(at - time.Second).Sub(c.Now()))
		if changed(w) {
			t.Errorf("news before noon + %s", at)
		}
		c.Advance(time.Second)
		if !changed(w) {
			t.Errorf("no news at noon + %s", at)
		}
		w.Snapshot()
	}
}

// Between the eviction of a pod from a node being removed and the creation of its ReplicaSet's next pod, no pod is
// pending. A plan made from such a snapshot overlooks the successor.
func TestASnapshotOverlooksAPodWhoseSuccessorIsYetToCome(t *testing.T) {
	owned := func(name, node, kind, uid string, version int) *corev1.Pod {
		p, yes := podOf(name, node, "1", version), true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: uid, UID: types.UID(uid), Controller: &yes}}
		return p
	}
	ends := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = &metav1.Time{Time: noon}
		return p
	}
	w, c := fresh()
	going(w)
	w.Update(nodeOf("stays", 3))
	for i, name := range []string{"a", "b"} {
		w.Update(owned(name, "n", "ReplicaSet", "web", 4+i))
	}
	w.Update(owned("job", "n", "Job", "job", 6))
	w.Update(owned("api", "n", "ReplicaSet", "api", 7))
	w.Update(owned("on-stays", "stays", "ReplicaSet", "web", 8))
	key := func(name string) []model.PodKey {
		for _, p := range w.pods.all {
			if p.Key.Name == name {
				return []model.PodKey{p.Key}
			}
		}
		t.Fatalf("there is no pod %s", name)
		return nil
	}
	b, job, api := key("b"), key("job"), key("api")
	var at time.Time
	look := func() { at = w.Snapshot().Now }
	want := func(overlooked bool, pods []model.PodKey, when string) {
		t.Helper()
		if got := w.Overlooked(at, pods); got != overlooked {
			t.Errorf("%s: overlooked is %v", when, got)
		}
	}
	look()
	want(false, b, "nobody was driven off")
	c.Advance(time.Second)
	w.Update(ends(owned("on-stays", "stays", "ReplicaSet", "web", 9)))
	look()
	want(false, b, "pods of machines that stay end all the time: by a scale-down, say")
	c.Advance(time.Second)
	w.Update(ends(owned("a", "n", "ReplicaSet", "web", 10)))
	w.Update(ends(owned("job", "n", "Job", "job", 11)))
	want(false, b, "the snapshot is from before that")
	look()
	want(true, b, "the next pod of web is yet to come")
	want(false, api, "of another ReplicaSet")
	want(false, job, "Jobs take their time")
	c.Advance(time.Second)
	w.Update(owned("a2", "", "ReplicaSet", "web", 12))
	want(true, b, "the snapshot is from before it came")
	c.Advance(time.Second)
	look()
	want(false, b, "it came")
	w.Delete(owned("a", "n", "ReplicaSet", "web", 13))
	look()
	want(false, b, "who was driven off is gone")
	w.Delete(owned("b", "n", "ReplicaSet", "web", 14))
	w.Update(owned("c", "n", "ReplicaSet", "web", 15))
	w.Update(owned("d", "n", "ReplicaSet", "web", 16))
	w.Delete(owned("c", "n", "ReplicaSet", "web", 17))
	d := key("d")
	c.Advance(nominated - time.Second)
	look()
	want(true, d, "one is gone without a word")
	c.Advance(time.Second)
	look()
	want(false, d, "nobody comes")
}

// The capacity for an evicted pod is kept for its successor although no pod is pending yet: the successor is Expected
// until it is created, or for 10 s.
func TestASuccessorIsExpectedUntilItComes(t *testing.T) {
	w, c := fresh()
	going(w)
	owned := func(name, node, uid string, version int) *corev1.Pod {
		p, yes := podOf(name, node, "1", version), true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: uid, UID: types.UID(uid), Controller: &yes}}
		return p
	}
	for i, name := range []string{"a", "b", "c"} {
		w.Update(owned(name, "n", "web", 3+i))
	}
	want := func(names, when string) *model.Snapshot {
		t.Helper()
		s := w.Snapshot()
		var got []string
		for _, p := range s.Expected {
			if s.Shapes[p.Shape].Requests[model.CPU] == 0 {
				t.Errorf("%s: %s has no shape", when, p.Name)
			}
			got = append(got, p.Name)
		}
		if strings.Join(got, " ") != names {
			t.Errorf("%s: %q are expected", when, got)
		}
		return s
	}
	want("", "nobody was driven off")
	w.Delete(owned("b", "n", "web", 10))
	ends := owned("a", "n", "web", 11)
	ends.DeletionTimestamp = &metav1.Time{Time: noon}
	w.Update(ends)
	first := want("a b", "two were")
	if second := want("a b", "again"); &first.Expected[0] != &second.Expected[0] {
		t.Error("what has not changed is made again")
	}
	w.Update(owned("other", "", "api", 12))
	want("a b", "another ReplicaSet's pod came")
	w.Update(owned("next", "", "web", 13))
	want("a", "one came")
	changed(w)
	c.Advance(nominated)
	if !changed(w) {
		t.Error("that nobody comes is no news")
	}
	want("", "nobody came")
	w.Delete(owned("a", "n", "web", 14))
	w.Delete(owned("c", "n", "web", 15))
	want("c", "the last one of its shape on a machine was driven off")
}
