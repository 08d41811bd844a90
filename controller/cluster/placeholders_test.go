package cluster

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// The pods that a Job has yet to create are Expected once one of its pods is pending; they have no placeholders as
// well.
func TestPlaceholdersYieldToExpectedPods(t *testing.T) {
	w := New(Options{Clock: clock.NewVirtual(noon)})
	job := &batchv1.Job{ObjectMeta: meta("report-28", 1), Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](4)}}
	job.Namespace = "default"
	key := types.NamespacedName{Namespace: "default", Name: job.Name}
	w.Await(types.NamespacedName{Namespace: "default", Name: "cronjob/report"}, podOf("report-28", "", "1", 1), 4, key)
	w.Update(job)
	for i, node := range []string{"", "n"} {
		p := podOf("first", node, "1", 2+i)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}}
		w.Update(p)
		s := w.Snapshot()
		if n := len(s.Placeholders()) + len(s.Expected); n != 3 {
			t.Errorf("on node %q: %d placeholders and %d expected pods, want 3 together", node, len(s.Placeholders()),
				len(s.Expected))
		}
	}
}

// Pods of an awaited Job replace placeholders in the very snapshot in which they first appear.
func TestAwaitedPodsTakeThePlaceOfPlaceholders(t *testing.T) {
	w := New(Options{Clock: clock.NewVirtual(noon)})
	owner := types.NamespacedName{Namespace: "default", Name: "cronjob/report"}
	job := types.NamespacedName{Namespace: "default", Name: "report-28"}
	yes := true
	podOfJob := func(name, job, node string, version int) *corev1.Pod {
		p := podOf(name, node, "1", version)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job, Controller: &yes}}
		return p
	}
	expect := func(when string, virtual, real int) {
		t.Helper()
		s := w.Snapshot()
		if n := len(s.Placeholders()); n != virtual || len(s.Pending)-n != real {
			t.Errorf("%s: %d placeholders and %d pods wait, want %d and %d", when, n, len(s.Pending)-n, virtual, real)
		}
	}
	w.Update(podOfJob("early", job.Name, "", 1))
	w.Await(owner, podOf("report-28", "", "1", 1), 4, job)
	expect("one pod has come already", 3, 1)
	w.Update(podOfJob("b", job.Name, "", 2))
	expect("another comes", 2, 2)
	w.Update(podOfJob("b", job.Name, "n", 3))
	expect("it is bound", 2, 1)
	w.Update(podOfJob("last", "report-27", "", 4))
	expect("a pod of the last run comes", 2, 2)
	w.Delete(podOfJob("b", job.Name, "n", 5))
	expect("a pod ends and is deleted", 2, 2)
	w.Await(owner, podOf("report-28", "", "1", 1), 0, job)
	expect("the room is given back", 0, 2)
	for i := range 3 {
		w.Update(podOfJob(fmt.Sprint("late", i), job.Name, "", 6+i))
	}
	if n, _ := w.Came(owner); n != 5 {
		t.Errorf("%d pods came, want 5", n)
	}
	w.Await(owner, nil, 0, job)
	if len(w.byOwner)+len(w.awaited) > 0 {
		t.Errorf("%d owners and %d Jobs are remembered", len(w.byOwner), len(w.awaited))
	}
}
