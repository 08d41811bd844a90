package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A Deployment wants 200 pods and the namespace's quota allows 50: nodes are launched for 50, and why says so.
func TestNoNodeWaitsForPodsThatAQuotaForbids(t *testing.T) {
	c := up(t, "--boot-time", "2s")
	c.apply(`apiVersion: v1
kind: ResourceQuota
metadata: {name: fifty}
spec: {hard: {pods: "50"}}
`)
	c.kubectl("wait", "--for=jsonpath={.status.hard.pods}=50", "resourcequota/fifty", "--timeout=240s")
	c.apply(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 200
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: nginx, resources: {requests: {cpu: "1", memory: 1Gi}}}]}
`)
	c.wantPods(2*time.Minute, "default", "web", 50)
	var cores int64
	for _, n := range c.nodes() {
		cores += n.Status.Capacity.Cpu().Value()
	}
	if cores < 50 || cores > 80 {
		t.Errorf("nodes of %d cores were launched for 50 pods of one core", cores)
	}
	c.eventually(time.Minute, func() error {
		out, err := c.run("why", "deployment", "web")
		if err == nil && !strings.Contains(out, "150 of 200 pods, and no node waits for them") {
			err = fmt.Errorf("why says: %s", out)
		}
		return err
	})
}
