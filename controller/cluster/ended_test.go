package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Pods that have done their work say that the cluster churns, for a while; told twice they count once.
func TestPodsThatEndedAreRememberedForAWhile(t *testing.T) {
	c := clock.NewVirtual(noon)
	w := New(Options{Clock: c})
	w.Update(nodeOf("n", 1))
	done := func(name string, phase corev1.PodPhase, version string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
		p.Spec.NodeName, p.Status.Phase = "n", phase
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: c.Now()}}}
		return p
	}
	w.Update(done("a", corev1.PodRunning, "2"))
	w.Update(done("b", corev1.PodRunning, "3"))
	if got := w.Snapshot().Ended; got != 0 {
		t.Errorf("all run, %d ended", got)
	}
	w.Update(done("a", corev1.PodSucceeded, "4"))
	again := done("a", corev1.PodSucceeded, "5")
	again.Labels = map[string]string{"seen": "twice"}
	w.Update(again)
	w.Update(done("b", corev1.PodFailed, "6"))
	evicted := done("c", corev1.PodRunning, "7") // it did not end: a kubelet says that it succeeded, and it runs again elsewhere
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	w.Update(evicted)
	moved := evicted.DeepCopy()
	moved.ResourceVersion, moved.Status.Phase = "8", corev1.PodSucceeded
	w.Update(moved)
	if got := w.Snapshot().Ended; got != 2 {
		t.Errorf("one succeeded and one failed, %d ended", got)
	}
	c.Advance(model.RecentlyEnded)
	if got := w.Snapshot().Ended; got != 0 {
		t.Errorf("that was long ago, %d ended", got)
	}
}
