package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Jobs have come and gone on one machine, and a pod has most of it that will end soon. The next one of its size waits for that, `why` says so, and
// it runs there. A third one waits for a pod that does not end: when it has waited enough a machine is launched for it.
func TestNewPodsWaitForOthersToEnd(t *testing.T) {
	t.Parallel()
	c := up(t, "--controller=false", "--boot-time", "500ms")
	c.onlyType("m5.4xlarge")
	c.replica("patient", "--leader-elect=false", "--patience", "20s")
	c.small("done", 100, "20m")
	c.wantSucceeded("done", 100)
	if n := len(c.claims()); n != 1 {
		t.Fatalf("%d machines for a hundred small pods", n)
	}

	c.job("first", "10s")
	c.wantPods(time.Minute, "default", "first", 1)
	c.job("second", "1h")
	c.eventually(time.Minute, func() error {
		if a := c.whyJSON("pod/second", "--patience", "20s"); a.Verdict != "Soon" || !strings.Contains(a.Summary, "likely to end on") {
			return fmt.Errorf("why says %s: %s", a.Verdict, a.Summary)
		}
		return nil
	})
	c.wantPods(time.Minute, "default", "second", 1)
	if n := len(c.claims()); n != 1 {
		t.Errorf("%d machines were launched, though the first pod ended in time", n)
	}

	c.job("third", "1h")
	c.wantPods(time.Minute, "default", "third", 1)
	if n := len(c.claims()); n != 2 {
		t.Errorf("%d machines, want one for the third pod", n)
	}
	if waited := c.waitedFor("third"); waited < 20*time.Second {
		t.Errorf("the third pod waited %s, and was to wait 20 s for others", waited)
	}
}

// job is a pod that has most of a machine, for so long.
func (c *cluster) job(name, runs string) {
	c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %s}, annotations: {nodeless.sh/run-for: %s}}, spec: {restartPolicy: Never,
  containers: [{name: app, image: pause, resources: {requests: {cpu: "14"}}}]}}`, name, name, runs))
}

func (c *cluster) wantSucceeded(app string, pods int) {
	c.t.Helper()
	c.eventually(2*time.Minute, func() error {
		if got := c.phases("default", app); got["Succeeded"] != pods {
			return fmt.Errorf("pods of %s by phase: %v, want %d Succeeded", app, got, pods)
		}
		return nil
	})
}

// waitedFor is how long a pod had no place.
func (c *cluster) waitedFor(name string) time.Duration {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		c.t.Fatal(err)
	}
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionTrue {
			return cond.LastTransitionTime.Sub(pod.CreationTimestamp.Time)
		}
	}
	return 0
}
