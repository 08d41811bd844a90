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
metadata: {name: report}
spec:
  schedule: "%s"
  timeZone: Etc/UTC
  jobTemplate:
    spec:
      parallelism: 50
      completions: 50
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: report, image: example.com/report, command: [sleep, "10"], resources: {requests: {cpu: 500m, memory: 1Gi}}}
`

const cronJobBoot = 20 * time.Second

// cronRun is what was observed of the pods of one run of a CronJob.
type cronRun struct {
	pods  map[string]bool // pods that have started
	lead  time.Duration   // the shortest time from the creation of a node's NodeClaim to that of a pod on it
	late  time.Duration   // the longest time from a pod's creation until its node was ready
	wait  time.Duration   // the longest time from a pod's creation until its container started
	first time.Time       // when the first NodeClaim of its nodes was created
}

// A CronJob's pods find their nodes ready: the nodes are launched one boot time before the scheduled minute. Between
// runs there are no nodes. The pods' waiting times are only logged, since they depend on the machine that runs the
// test.
func TestACronJobsNodesAreReadyWhenItRuns(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", cronJobBoot.String())
	first := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	second := first.Add(2 * time.Minute)
	c.apply(fmt.Sprintf(cronJob, fmt.Sprintf("%d,%d * * * *", first.Minute(), second.Minute())))
	if out, err := c.run("why", "cronjob/report"); err != nil || !strings.Contains(out, "next run") {
		t.Errorf("why does not say when it runs next: %v\n%s", err, out)
	}
	runs, claims := map[string]*cronRun{}, map[string]karpv1.NodeClaim{}
	job := func(run time.Time) string { return fmt.Sprintf("report-%d", run.Unix()/60) }
	c.eventually(6*time.Minute, func() error {
		c.noteClaims(claims)
		c.noteRuns(runs, claims)
		if r := runs[job(second)]; r == nil || len(r.pods) < 50 {
			return fmt.Errorf("not all pods of the run at %s have started: %d runs have", second, len(runs))
		}
		return nil
	})
	for job, r := range runs {
		t.Logf("%s: %d pods; nodes launched %s ahead, ready %s ahead; from creation to start at most %s", job, len(r.pods),
			r.lead, -r.late, r.wait)
	}
	r := runs[job(second)]
	if r.lead < cronJobBoot {
		t.Errorf("a node was launched only %s ahead of its pods", r.lead)
	}
	if r.first.Before(first.Add(30 * time.Second)) {
		t.Logf("nodes of the first run were still there")
	} else if !c.reserved(claims, job(second)) {
		t.Error("no NodeClaim says that it was launched for the second run")
	}
	c.wantEvents("reason=NodesAhead", "node-seconds")
	t.Log(c.kubectl("get", "events", "--field-selector", "reason=NodesAhead", "--sort-by=.lastTimestamp"))
}

// noteClaims records NodeClaims by node, since they may be deleted before their pods are examined.
func (c *cluster) noteClaims(claims map[string]karpv1.NodeClaim) {
	for _, claim := range c.claims() {
		if claim.Status.NodeName != "" && claim.DeletionTimestamp == nil {
			claims[claim.Status.NodeName] = claim
		}
	}
}

func (c *cluster) reserved(claims map[string]karpv1.NodeClaim, job string) bool {
	for _, claim := range claims {
		if strings.Contains(claim.Annotations["nodeless.sh/reserves"], "default/"+job) {
			return true
		}
	}
	return false
}

// noteRuns adds pods that have started to their runs.
func (c *cluster) noteRuns(runs map[string]*cronRun, claims map[string]karpv1.NodeClaim) {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace("default")); err != nil {
		c.t.Logf("list pods: %v", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		started, ran := startOf(p)
		claim, known := claims[p.Spec.NodeName]
		ready := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized)
		if !ran || !known || !ready.IsTrue() {
			continue
		}
		created, job := p.CreationTimestamp.Time, p.Labels[batchv1.JobNameLabel]
		lead := created.Sub(claim.CreationTimestamp.Time)
		if runs[job] == nil {
			runs[job] = &cronRun{pods: map[string]bool{}, lead: lead, late: -lead, first: claim.CreationTimestamp.Time}
		}
		r := runs[job]
		r.pods[p.Name] = true
		r.lead, r.late = min(r.lead, lead), max(r.late, ready.LastTransitionTime.Sub(created))
		r.wait = max(r.wait, started.Sub(created))
		if claim.CreationTimestamp.Time.Before(r.first) {
			r.first = claim.CreationTimestamp.Time
		}
	}
}

// startOf returns when a pod's container started, and whether it did.
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
