package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

func ownedBy(kind, uid, name, node string, version int) *corev1.Pod {
	p, yes := podOf(name, node, "1", version), true
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: selecting[kind], Kind: kind, Name: uid, UID: types.UID(uid), Controller: &yes,
	}}
	p.CreationTimestamp = metav1.Time{Time: noon.Add(time.Minute)}
	return p
}

func ownerMeta(version int) metav1.ObjectMeta {
	m := meta("web", version)
	m.UID, m.Namespace, m.CreationTimestamp = "web", "default", metav1.Time{Time: noon.Add(time.Minute)}
	return m
}

func replicaSet(replicas int32, failing bool, version int) *appsv1.ReplicaSet {
	o := &appsv1.ReplicaSet{ObjectMeta: ownerMeta(version), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
	if failing {
		o.Status.Conditions = []appsv1.ReplicaSetCondition{
			{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue},
		}
	}
	return o
}

func jobOf(parallelism, completions, succeeded int32, suspended bool) *batchv1.Job {
	o := &batchv1.Job{ObjectMeta: ownerMeta(1), Spec: batchv1.JobSpec{Parallelism: &parallelism, Suspend: &suspended}}
	if o.Status.Succeeded = succeeded; completions >= 0 {
		o.Spec.Completions = &completions
	}
	return o
}

func statefulSet(replicas int32, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: ownerMeta(1), Spec: appsv1.StatefulSetSpec{Replicas: &replicas, PodManagementPolicy: policy},
	}
}

func quotaOf(name, resourceName, hard string, version int) *corev1.ResourceQuota {
	m := meta(name, version)
	m.Namespace = "default"
	return &corev1.ResourceQuota{ObjectMeta: m, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(hard)},
	}}
}

func expectedNames(s *model.Snapshot) string {
	var out []string
	for _, p := range s.Expected {
		out = append(out, strings.TrimLeft(strings.TrimPrefix(p.Name, "web-expected-"), "0"))
	}
	return strings.Join(out, " ")
}

func TestWhatOwnersHaveYetToCreateIsExpected(t *testing.T) {
	two := []client.Object{
		ownedBy("ReplicaSet", "web", "a", "", 2), ownedBy("ReplicaSet", "web", "b", "n", 3),
	}
	finished := ownedBy("Job", "web", "c", "n", 4)
	finished.Status.Phase = corev1.PodSucceeded
	gated := ownedBy("ReplicaSet", "web", "gated", "", 5)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	for _, x := range []struct {
		name    string
		owner   client.Object
		want    string
		objects []client.Object
	}{
		{"five replicas, of which two are there", replicaSet(5, false, 1), "3 4 5", two},
		{"one that another scheduler has is there too", replicaSet(5, false, 1), "4 5", append(two, gated)},
		{"the controller cannot create more", replicaSet(5, true, 1), "", two},
		{"nobody waits", replicaSet(5, false, 1), "", two[1:]},
		{"no owner can be read", poolOf("p", 1), "", two},
		{"a StatefulSet waits for each pod", statefulSet(5, appsv1.OrderedReadyPodManagement), "", two},
		{"a StatefulSet does not wait", statefulSet(5, appsv1.ParallelPodManagement), "3 4 5", two},
		{"parallelism", jobOf(4, 100, 0, false), "3 4", two},
		{"what is left to complete", jobOf(4, 10, 7, false), "3", two},
		{"its status does not know yet that one has succeeded", jobOf(4, 3, 0, false), "", append(two, finished)},
		{"a work queue", jobOf(4, -1, 0, false), "3 4", two},
		{"a work queue that is empty", jobOf(4, -1, 1, false), "", two},
		{"suspended", jobOf(4, 100, 0, true), "", two},
		{"a quota for pods", replicaSet(5, false, 1), "3", append(two, quotaOf("q", "pods", "3", 9))},
		{"two quotas", replicaSet(9, false, 1), "3 4", append(two, quotaOf("q", "pods", "7", 9),
			quotaOf("r", "requests.cpu", "4500m", 10))},
		{"a quota that is used up", replicaSet(5, false, 1), "", append(two, quotaOf("q", "cpu", "1", 9))},
		{"a quota for existing pods counts one that has ended", jobOf(9, 100, 0, false), "3", append(two, finished,
			quotaOf("q", "count/pods", "4", 9))},
		{"a quota for pods that run does not", jobOf(9, 100, 0, false), "3 4", append(two, finished,
			quotaOf("q", "pods", "4", 9))},
	} {
		w, _ := fresh()
		for _, o := range append(x.objects[:len(x.objects):len(x.objects)], x.owner) {
			w.Update(o)
		}
		if got := expectedNames(w.Snapshot()); got != x.want {
			t.Errorf("%s: %q are expected, want %q", x.name, got, x.want)
		}
	}
}

func TestAnOwnerThatCreatesNothingIsStuck(t *testing.T) {
	w, c := fresh()
	w.Update(replicaSet(3, false, 1))
	w.Update(ownedBy("ReplicaSet", "web", "a", "", 2))
	first := w.Snapshot()
	if got := expectedNames(first); got != "2 3" {
		t.Fatalf("%q are expected", got)
	}
	if again := w.Snapshot(); &first.Expected[0] != &again.Expected[0] {
		t.Error("what has not changed is made again")
	}
	changed(w)
	c.Advance(nominated)
	if !changed(w) {
		t.Error("nobody is told that no more is expected")
	}
	if got := expectedNames(w.Snapshot()); got != "" {
		t.Errorf("after %s without a pod %q are expected", nominated, got)
	}
	w.Update(replicaSet(4, false, 3))
	if got := expectedNames(w.Snapshot()); got != "2 3 4" {
		t.Errorf("scaled up, %q are expected", got)
	}
	c.Advance(time.Second)
	w.Delete(replicaSet(4, false, 4))
	if got := expectedNames(w.Snapshot()); got != "" {
		t.Errorf("of a deleted ReplicaSet %q are expected", got)
	}
}

func TestAPodTakesThePlaceOfTheOneThatWasExpected(t *testing.T) {
	w, _ := fresh()
	w.Update(claimOf("c1", "", 1))
	w.Update(claimOf("c2", "", 2))
	w.Update(replicaSet(4, false, 3))
	w.Update(ownedBy("ReplicaSet", "web", "a", "", 4))
	s, promised := w.Snapshot(), map[model.PodKey]string{}
	for i, p := range s.Expected {
		promised[p.PodKey] = fmt.Sprintf("c%d", 1+i/2)
	}
	w.Nominate(nil, promised)
	w.Update(ownedBy("ReplicaSet", "web", "b", "", 5))
	s = w.Snapshot()
	if got := s.Pending[1].Nominated; got != "c1" {
		t.Errorf("b came, and is nominated to %q", got)
	}
	if len(s.Expected) != 2 || s.Expected[0].Nominated != "c1" || s.Expected[1].Nominated != "c2" {
		t.Errorf("still expected: %+v", s.Expected)
	}
}

// One owner with a typing error in its replicas must not fill memory with pods that nobody creates.
func TestTheNumberOfExpectedPodsIsBounded(t *testing.T) {
	w, _ := fresh()
	w.Update(replicaSet(1<<30, false, 1))
	w.Update(ownedBy("ReplicaSet", "web", "a", "", 2))
	other := replicaSet(5, false, 3)
	other.Name, other.UID = "other", "other"
	w.Update(other)
	w.Update(ownedBy("ReplicaSet", "other", "b", "", 4))
	if got := len(w.Snapshot().Expected); got != 10_000 {
		t.Errorf("%d pods are expected, want 10000", got)
	}
}

// Between a snapshot and the plan for it a pod is created: it takes the place of the one that the plan expects.
func TestAPodThatArrivesDuringAPlanHasAPlace(t *testing.T) {
	w, _ := fresh()
	w.Update(replicaSet(3, false, 1))
	w.Update(ownedBy("ReplicaSet", "web", "a", "", 2))
	s := w.Snapshot()
	b := ownedBy("ReplicaSet", "web", "b", "", 3)
	w.Update(b)
	w.Nominate(nil, map[model.PodKey]string{
		s.Pending[0].PodKey: "c1", s.Expected[0].PodKey: "c2", s.Expected[1].PodKey: "c3",
	})
	w.Update(ownedBy("ReplicaSet", "web", "c", "", 4))
	for claim, want := range map[string]string{"c1": "a", "c2": "b", "c3": "c"} {
		if got := w.Promised(claim); len(got) != 1 || got[0].Name != want {
			t.Errorf("%s is promised to %v, want %s", claim, got, want)
		}
	}
}

// A plan that knows the pod that came expects another one under the same name.
func TestAPodThatAPlanKnowsKeepsItsPlace(t *testing.T) {
	w, _ := fresh()
	w.Update(replicaSet(3, false, 1))
	w.Update(ownedBy("ReplicaSet", "web", "a", "", 2))
	first := w.Snapshot()
	b := ownedBy("ReplicaSet", "web", "b", "", 3)
	w.Update(b)
	key := model.PodKey{Namespace: "default", Name: "b", UID: string(b.UID)}
	w.Nominate(nil, map[model.PodKey]string{key: "c1", first.Expected[0].PodKey: "c2"})
	if got := w.Promised("c1"); len(got) != 1 || got[0] != key {
		t.Errorf("c1 is promised to %v", got)
	}
}

// A ReplicaSet whose controller is busy with others has no pod yet. While any pod waits, its template says what comes.
func TestWhatOwnersWillCreateFirstIsExpected(t *testing.T) {
	c := clock.NewVirtual(noon)
	w := New(Options{Clock: c, Apart: func(p *corev1.Pod) bool { return p.Labels["in"] == "microvm" }})
	web := replicaSet(3, false, 1)
	web.Spec.Template.Spec = podOf("x", "", "2", 1).Spec
	before := w.Workloads()
	w.Update(web)
	if got := w.Workloads(); got != before+1 {
		t.Errorf("%d workloads were seen", got-before)
	}
	if got := expectedNames(w.Snapshot()); got != "" {
		t.Errorf("nobody waits: %q are expected", got)
	}
	other := podOf("other", "", "1", 2)
	w.Update(other)
	s := w.Snapshot()
	if got := expectedNames(s); got != "1 2 3" {
		t.Fatalf("%q are expected", got)
	}
	for _, p := range s.Expected {
		if cpu := s.Shapes[p.Shape].Requests[model.CPU]; !p.FromTemplate || cpu != 2000 {
			t.Errorf("%s is of the template: %v, and requests %d", p.Name, p.FromTemplate, cpu)
		}
	}
	w.Update(claimOf("c1", "", 2))
	promised := map[model.PodKey]string{s.Expected[0].PodKey: "c1", s.Expected[1].PodKey: "c1"}
	w.Nominate(nil, promised)
	if s = w.Snapshot(); s.Expected[0].Nominated != "" {
		t.Errorf("a place is kept for what only a template tells of: %+v", s.Expected[0])
	}
	w.Update(ownedBy("ReplicaSet", "web", "a", "", 3)) // 1 CPU: admission has changed it
	s = w.Snapshot()
	if s.Pending[1].Nominated != "c1" {
		t.Errorf("the first pod has no place: %+v", s.Pending)
	}
	if got := expectedNames(s); got != "2 3" || s.Expected[0].FromTemplate || s.Expected[0].Nominated != "c1" ||
		s.Shapes[s.Expected[0].Shape].Requests[model.CPU] != 1000 {
		t.Errorf("beside the first pod %q are expected: %+v", got, s.Expected)
	}
	if len(s.Shapes) != 1 {
		t.Errorf("%d shapes are left", len(s.Shapes))
	}
	bound := ownedBy("ReplicaSet", "web", "a", "n", 4)
	w.Update(bound)
	more := replicaSet(5, false, 5)
	more.Spec.Template = web.Spec.Template
	w.Update(more)
	if s = w.Snapshot(); expectedNames(s) != "" {
		t.Errorf("scaled up, before the first of the new pods: %+v", s.Expected)
	}
	w.Update(ownedBy("ReplicaSet", "web", "b", "", 6))
	if s = w.Snapshot(); expectedNames(s) != "3 4 5" || s.Expected[0].FromTemplate {
		t.Errorf("scaled up, with the first of the new pods: %+v", s.Expected)
	}
}

// Of some ReplicaSets the template does not say what their pods will need, or they need no node.
func TestTemplatesThatDoNotTellAreNotExpected(t *testing.T) {
	for what, change := range map[string]func(*corev1.PodTemplateSpec){
		"another scheduler": func(p *corev1.PodTemplateSpec) { p.Spec.SchedulerName = "another" },
		"a microVM":         func(p *corev1.PodTemplateSpec) { p.Labels = map[string]string{"in": "microvm"} },
		"a priority class":  func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = "high" },
		"a volume": func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		},
		"a device": func(p *corev1.PodTemplateSpec) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
	} {
		w := New(Options{
			Clock: clock.NewVirtual(noon.Add(time.Minute)),
			Apart: func(p *corev1.Pod) bool { return p.Labels["in"] == "microvm" },
		})
		w.Update(podOf("other", "", "1", 1))
		for i, rs := range []*appsv1.ReplicaSet{replicaSet(2, false, 2), replicaSet(2, false, 3)} {
			rs.Name = fmt.Sprint("web-", i)
			rs.UID, rs.Spec.Template.Spec = types.UID(rs.Name), podOf("x", "", "2", 1).Spec
			if i == 1 {
				change(&rs.Spec.Template)
			}
			w.Update(rs)
			if got := len(w.Snapshot().Expected); got != 2 {
				t.Errorf("%s: %d pods are expected, want those of the other ReplicaSet", what, got)
			}
		}
	}
}

// A quota of limits, and a LimitRange that gives the pods theirs.
func TestQuotasOfLimitsApplyToTemplates(t *testing.T) {
	w, _ := fresh()
	w.Update(podOf("other", "", "1", 1))
	m := meta("limits", 2)
	m.Namespace = "default"
	w.Update(&corev1.LimitRange{ObjectMeta: m, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}})
	w.Update(quotaOf("q", "limits.cpu", "2", 3))
	rs := replicaSet(9, false, 4)
	rs.Spec.Template.Spec = podOf("x", "", "500m", 1).Spec
	w.Update(rs)
	if got := expectedNames(w.Snapshot()); got != "1 2" {
		t.Errorf("%q are expected", got)
	}
}

func TestAReplicaSetThatNoLongerFailsIsExpected(t *testing.T) {
	w, c := fresh()
	w.Update(podOf("other", "", "1", 1))
	for version, failing := range []bool{false, true, false} {
		rs := replicaSet(2, failing, version+2)
		rs.Spec.Template.Spec = podOf("x", "", "2", 1).Spec
		w.Update(rs)
		if got := expectedNames(w.Snapshot()); (got == "1 2") == failing {
			t.Errorf("failing %v: %q are expected", failing, got)
		}
		c.Advance(nominated)
	}
}

// kube-scheduler's default constraints spread a ReplicaSet's pods by its selector.
func TestATemplateIsSpreadByDefault(t *testing.T) {
	w := spreadByDefault(t)
	w.storage.spread.watched["ReplicaSet"] = true // as Attach does
	w.Update(podOf("other", "", "1", 1))
	rs := replicaSet(2, false, 2)
	rs.CreationTimestamp = metav1.Now()
	rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	rs.Spec.Template.Labels = rs.Spec.Selector.MatchLabels
	rs.Spec.Template.Spec = podOf("x", "", "2", 1).Spec
	w.Update(rs)
	s := w.Snapshot()
	if len(s.Expected) != 2 || len(s.Shapes[s.Expected[0].Shape].Spread) == 0 {
		t.Errorf("not spread: %+v", s.Expected)
	}
}
