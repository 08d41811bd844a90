package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// jobPod is a Job's pod that started at noon and succeeded after ran, or still runs if ran is 0.
func jobPod(name, job string, ran time.Duration, version int) *corev1.Pod {
	p := podOf(name, "n", "1", version)
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job, Controller: &yes}}
	p.Status.StartTime = &metav1.Time{Time: noon}
	if ran > 0 {
		p.Status.Phase = corev1.PodSucceeded
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse,
			LastTransitionTime: metav1.Time{Time: noon.Add(ran)},
		}}
	}
	return p
}

func TestAJobsPodKnowsHowLongEarlierOnesRan(t *testing.T) {
	w, _ := fresh()
	w.Update(nodeOf("n", 1))
	runs := func() *model.JobRun {
		for _, p := range w.Snapshot().Nodes[0].Pods {
			if p.Name == "now" {
				return p.Job
			}
		}
		return nil
	}
	w.Update(podOf("web", "n", "1", 2))
	w.Update(jobPod("now", "report-29123460", 0, 2)) // of CronJob report, like the ones before
	if j := runs(); j == nil || !j.Started.Equal(noon) || len(j.Past) != 0 {
		t.Fatalf("nothing is known yet: %+v", j)
	}
	w.Update(jobPod("first", "report-29123400", 0, 3))
	w.Update(jobPod("first", "report-29123400", 9*time.Minute, 4))
	w.Update(jobPod("first", "report-29123400", 9*time.Minute, 5)) // a repeated event, counted once
	w.Delete(jobPod("first", "report-29123400", 9*time.Minute, 6))
	w.Update(jobPod("second", "report-29123430", 7*time.Minute, 7)) // first seen after it had succeeded
	w.Update(jobPod("other", "bill-29123430", time.Minute, 8))
	failed := jobPod("failed", "report-29123431", time.Minute, 9)
	failed.Status.Phase = corev1.PodFailed
	w.Update(failed)
	if j := runs(); !slices.Equal(j.Past, []time.Duration{7 * time.Minute, 9 * time.Minute}) {
		t.Errorf("earlier ones ran %v", j.Past)
	}
	deadline := int64(600)
	late := jobPod("now", "report-29123460", 0, 10)
	late.Spec.ActiveDeadlineSeconds = &deadline
	w.Update(late)
	if j := runs(); !j.EndsBy.Equal(noon.Add(10 * time.Minute)) {
		t.Errorf("it ends by %s", j.EndsBy)
	}
	for _, p := range w.Snapshot().Nodes[0].Pods {
		if p.Name == "web" && p.Job != nil {
			t.Error("web is no Job's")
		}
	}
}

func TestNotEveryJobIsRememberedForEver(t *testing.T) {
	w, clock := fresh()
	w.Update(nodeOf("n", 1))
	last := maxJobs + 50
	for i := range last + 1 { // two pods each; the second ends after the first is known to have ended
		name := fmt.Sprintf("once-%d", i)
		w.Update(jobPod(name, name, 0, 2))
		w.Update(jobPod(name+"-b", name, 0, 2))
		w.Update(jobPod(name, name, time.Minute, 3))
		w.Update(jobPod(name+"-b", name, time.Minute, 3))
		w.Delete(jobPod(name, name, time.Minute, 4))
		w.Delete(jobPod(name+"-b", name, time.Minute, 4))
		clock.Advance(time.Second)
	}
	if n := len(w.jobs.by); n > maxJobs || n < maxJobs/2 || w.jobs.by["default/once-0"] != nil ||
		w.jobs.by[fmt.Sprintf("default/once-%d", last)] == nil {
		t.Errorf("%d Jobs are remembered", n)
	}
	for i := range 3 * maxRuns {
		w.Update(jobPod(fmt.Sprintf("pod-%d", i), "often", time.Duration(i+1)*time.Minute, 4))
	}
	if j := w.jobs.by["default/often"]; len(j.past) != maxRuns || j.past[0] != (2*maxRuns+1)*time.Minute {
		t.Errorf("of a Job %d runs are remembered, the first of %s", len(j.past), j.past[0])
	}
}
