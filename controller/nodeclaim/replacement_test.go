package nodeclaim

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// An interrupted node is prepared for when every node that the newest plan has for its pods is launched.
func TestAnInterruptedMachineIsPreparedForWhenItsPodsNextMachinesAreLaunched(t *testing.T) {
	w := cluster.New(cluster.Options{})
	p := &replacements{objects: &objects{cluster: w}, claims: workqueue.New("NodeClaim", clock.Real{}, slog.Default())}
	version := 0
	observe := func(name, providerID string, annotations map[string]string) {
		version++
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: string(rune('0' + version)), Annotations: annotations,
		}}
		c.Status.ProviderID = providerID
		w.Update(c)
	}
	observe("old", "aws:///a/i-old",
		map[string]string{translate.AnnotationInterrupted: translate.Interruption("spot_interrupted", time.Now())})
	observe("flying", "", nil)
	one, two, other := model.PodKey{Name: "one"}, model.PodKey{Name: "two"}, model.PodKey{Name: "other"}
	s := &model.Snapshot{
		Nodes: []model.Node{
			{Name: "old-node", Claim: "old", Deleting: true, State: model.Initialized},
			{Name: "flying", Claim: "flying", State: model.InFlight},
			{Name: "ready", Claim: "ready", State: model.Initialized},
		},
		Pending: []model.Pod{{PodKey: one, From: "old-node"}, {PodKey: two, From: "old-node"}, {PodKey: other, Shape: 1}},
	}
	plan := model.Plan{
		Placements: []model.Placement{{Pod: one, Node: "flying"}, {Pod: two, Node: "ready"}},
		Launches:   []model.Launch{{ID: "elsewhere", Pods: []model.PodKey{other}}},
	}
	want := func(prepared bool, when string) {
		t.Helper()
		if got := p.ready("old"); got != prepared {
			t.Errorf("%s: prepared is %v", when, got)
		}
	}
	want(false, "before any plan")
	p.decided(s, plan, nil)
	want(false, "a machine on its way is not launched")
	observe("flying", "aws:///a/i-flying", nil)
	want(true, "it is launched; others' launches do not matter")

	plan = model.Plan{Launches: []model.Launch{
		{ID: "l1", Pods: []model.PodKey{one}},
		{ID: "l2", Pods: []model.PodKey{two}},
	}}
	p.decided(s, plan, map[string]string{"l1": "new-1"})
	want(false, "a launch was refused: another plan follows")
	p.decided(s, plan, map[string]string{"l1": "new-1", "l2": "new-2"})
	want(false, "both are asked for")
	observe("new-1", "aws:///a/i-1", nil)
	want(false, "one is launched")
	observe("new-2", "aws:///a/i-2", nil)
	want(true, "both are launched")

	same := model.PodKey{Name: "same"} // unplaced; kube-scheduler may give it the capacity meant for one of the two
	s.Pending = append(s.Pending, model.Pod{PodKey: same})
	behind := plan
	behind.Launches = append(slices.Clone(plan.Launches), model.Launch{ID: "l3", Pods: []model.PodKey{same}})
	both := map[string]string{"l1": "new-1", "l2": "new-2"}
	p.decided(s, behind, both)
	want(false, "the launch for a pod that could take their place was refused")
	both["l3"] = "new-3"
	p.decided(s, behind, both)
	want(false, "it is asked for")
	observe("new-3", "aws:///a/i-3", nil)
	want(true, "it is launched, too")
	s.Pending = s.Pending[:3]

	p.decided(s, model.Plan{}, nil)
	want(false, "a plan that was refused answers nobody")
	p.decided(s, model.Plan{
		Placements: []model.Placement{{Pod: one, Node: "ready"}},
		Unplaced:   []model.Unplaced{{Pod: two}},
	}, nil)
	want(true, "what cannot be had is not waited for")
	s.Nodes[0].Deleting = false
	p.decided(s, plan, nil)
	want(false, "the plan did not know that it goes")
}

// Replacements are awaited as long as the pods still have their full grace periods, a minute at most.
func TestPodsThatNeedLongToEndShortenTheWait(t *testing.T) {
	w := cluster.New(cluster.Options{})
	p := &replacements{objects: &objects{cluster: w}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ResourceVersion: "1"}}
	w.Update(node)
	want := func(wait time.Duration, when string) {
		t.Helper()
		if got := p.maxWait([]*corev1.Node{node}); got != wait {
			t.Errorf("%s: %v, want %v", when, got, wait)
		}
	}
	want(time.Minute, "no pods")
	for i, grace := range []int64{30, 90} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: string(rune('a' + i)),
			UID: types.UID(rune('a' + i)), ResourceVersion: "1",
		}}
		p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds, p.Status.Phase = "n", &grace, corev1.PodRunning
		w.Update(p)
		want([]time.Duration{time.Minute, 15 * time.Second}[i],
			"a pod that ends in "+time.Duration(grace*int64(time.Second)).String())
	}
	if got := p.maxWait(nil); got != 0 {
		t.Errorf("without a Node there is nobody to wait for, and it is %v", got)
	}
}

// A plan made between a pod's eviction and the creation of its ReplicaSet's next pod takes the capacity for that pod
// to be free.
func TestAMachineDoesNotGoOnAccountOfRoomThatIsForThePodBeforeIt(t *testing.T) {
	w, yes := cluster.New(cluster.Options{}), true
	p := &replacements{objects: &objects{cluster: w}, claims: workqueue.New("NodeClaim", clock.Real{}, slog.Default())}
	pod := func(name, node, version string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: name, UID: types.UID(name),
			ResourceVersion: version,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "web", Controller: &yes}},
		}}
		p.Spec.NodeName = node
		return p
	}
	s := &model.Snapshot{}
	plan := model.Plan{}
	for i, name := range []string{"first", "second"} {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: "1",
			Finalizers: []string{"f"},
			Annotations: map[string]string{translate.AnnotationInterrupted: translate.Interruption("spot_interrupted",
				time.Now())},
		}}
		c.Status.ProviderID = "aws:///a/i-" + name
		if i == 0 {
			c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name + "-node", UID: types.UID(name), ResourceVersion: "1"}}
		n.Spec.ProviderID = c.Status.ProviderID
		w.Update(c)
		w.Update(n)
		w.Update(pod("of-"+name, n.Name, "1"))
		s.Nodes = append(s.Nodes, model.Node{Name: n.Name, Claim: name, Deleting: true, State: model.Initialized})
	}
	second := model.PodKey{Namespace: "d", Name: "of-second", UID: "of-second"}
	s.Pending = []model.Pod{{PodKey: second, From: "second-node"}}
	plan.Placements = []model.Placement{{Pod: second, Node: "ready"}}
	want := func(prepared bool, when string) {
		t.Helper()
		s.Now = w.Snapshot().Now
		if p.decided(s, plan, nil); p.ready("second") != prepared {
			t.Errorf("%s: prepared is %v", when, !prepared)
		}
	}
	want(true, "there is room")
	w.Delete(pod("of-first", "first-node", "2"))
	want(false, "the room is for the next pod of the first machine, which is not there yet")
	w.Update(pod("next", "", "3"))
	want(true, "it is there, and the plan knows")
}
