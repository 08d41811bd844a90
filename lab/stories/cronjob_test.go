package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const cronJob = `apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
spec:
  schedule: "*/2 * * * *"
  jobTemplate:
    spec:
      parallelism: 50
      completions: 50
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: report
              image: example.com/report
              command: [sleep, "30"]
              resources:
                requests:
                  cpu: 500m
                  memory: 1Gi
`

// run is what the pods of one run of a CronJob have seen.
type cronRun struct {
	pods map[string]bool
	late time.Duration // the longest time from a pod's creation until its node was ready
	wait time.Duration // the longest time from a pod's creation until its container started
}

// A CronJob's pods find their nodes ready: these are launched a boot time before the minute.
func TestACronJobsNodesAreReadyWhenItRuns(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "20s")
	c.apply(cronJob)
	runs := map[string]*cronRun{}
	ready := map[string]time.Time{} // by node
	c.eventually(8*time.Minute, func() error {
		c.noteReady(ready)
		c.noteRuns(runs, ready)
		if whole := wholeRuns(runs); whole < 3 {
			return fmt.Errorf("%d whole runs", whole)
		}
		return nil
	})
	first := firstRun(runs)
	for job, r := range runs {
		t.Logf("%s: %d pods; from creation to start at most %s", job, len(r.pods), r.wait)
		if job != first && len(r.pods) == 50 && r.late > 2*time.Second {
			t.Errorf("%s: a pod waited %s for its node", job, r.late)
		}
	}
	c.wantEvents("reason=NodesAhead", "node-seconds")
	t.Log(c.kubectl("get", "events", "--field-selector", "reason=NodesAhead", "--sort-by=.lastTimestamp"))
	if out, err := c.run("why", "cronjob/report"); err != nil || !strings.Contains(out, "next run") {
		t.Errorf("why does not say when it runs next: %v\n%s", err, out)
	}
}

// noteReady remembers when nodes became ready: they may be gone when their pods are looked at.
func (c *cluster) noteReady(ready map[string]time.Time) {
	for _, claim := range c.claims() {
		if cond := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized); cond.IsTrue() {
			ready[claim.Status.NodeName] = cond.LastTransitionTime.Time
		}
	}
}

// noteRuns adds the pods that have started to their runs.
func (c *cluster) noteRuns(runs map[string]*cronRun, ready map[string]time.Time) {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("default")); err != nil {
		c.t.Logf("list pods: %v", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		started, ran := startOf(p)
		at, known := ready[p.Spec.NodeName]
		if !ran || !known {
			continue
		}
		job := p.Labels[batchv1.JobNameLabel]
		if runs[job] == nil {
			runs[job] = &cronRun{pods: map[string]bool{}}
		}
		r := runs[job]
		r.pods[p.Name] = true
		r.late = max(r.late, at.Sub(p.CreationTimestamp.Time))
		r.wait = max(r.wait, started.Sub(p.CreationTimestamp.Time))
	}
}

// startOf returns when a pod's container started, and whether it has.
func startOf(p *corev1.Pod) (metav1.Time, bool) {
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Running != nil:
			return s.State.Running.StartedAt, true
		case s.State.Terminated != nil:
			return s.State.Terminated.StartedAt, true
		}
	}
	return metav1.Time{}, false
}

func wholeRuns(runs map[string]*cronRun) (n int) {
	for _, r := range runs {
		if len(r.pods) == 50 {
			n++
		}
	}
	return n
}

// firstRun returns the Job of the first run: their names end in the minute.
func firstRun(runs map[string]*cronRun) string {
	first := ""
	for job := range runs {
		if first == "" || job < first {
			first = job
		}
	}
	return first
}
