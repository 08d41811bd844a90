package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// kube-scheduler and Nodeless share a configuration: pods get its default topology spread, and pods of its other
// profiles are served.
func TestSchedulerConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, minDomains: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
- schedulerName: batch
`
	write(strings.Replace(config, "maxSkew: 1", "maxSkew: 0", 1))
	c := newCluster(t, "--addons=false", "--scheduler-config", file)
	if err := c.tryStart(); err == nil || !strings.Contains(c.log(), "--scheduler-config") ||
		!strings.Contains(c.log(), "maxSkew") {
		t.Fatalf("up with a bad configuration: %v\n%s", err, c.log())
	}
	write(config)
	c.start()
	none := c.kubectl("get", "daemonsets,deployments,poddisruptionbudgets,configmaps", "-n", "kube-system", "-o", "name")
	if regexp.MustCompile("aws-node|vpc-cni|kube-proxy|coredns").MatchString(none) {
		t.Errorf("with --addons=false there is\n%s", none)
	}
	c.apply(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: nginx, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: job, labels: {app: job}}
spec:
  schedulerName: batch
  containers: [{name: app, image: nginx, resources: {requests: {cpu: "8"}}}]
`)
	c.wantPods(time.Minute, "default", "web", 3)
	c.wantPods(time.Minute, "default", "job", 1)
	c.eventually(time.Minute, func() error { // a pod may move between the two reads
		on := c.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}")
		zones := map[string]bool{}
		for _, n := range c.nodes() {
			if slices.Contains(strings.Fields(on), n.Name) {
				zones[n.Labels["topology.kubernetes.io/zone"]] = true
			}
		}
		if len(zones) != 3 {
			return fmt.Errorf("three pods that spread over zones have nodes in %v", zones)
		}
		return nil
	})
	if out, err := c.run("why", "pod/job"); err != nil || strings.Contains(out, "it uses scheduler") {
		t.Errorf("why of a pod of the profile batch: %v\n%s", err, out)
	}
	c.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: hopeless}\nspec: {schedulerName: batch, " +
		"nodeSelector: {no: such}, containers: [{name: app, image: nginx}]}\n")
	if out, err := c.run("why", "pod/hopeless"); err != nil || !strings.Contains(out, "no node can take it") {
		t.Errorf("why of a hopeless pod of the profile batch: %v\n%s", err, out)
	}
	c.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: foreign}\n" +
		"spec: {schedulerName: other, containers: [{name: app, image: nginx}]}\n")
	if out, err := c.run("why", "pod/foreign"); err != nil || !strings.Contains(out, "batch, default-scheduler") {
		t.Errorf("why of a pod of another scheduler: %v\n%s", err, out)
	}
}
