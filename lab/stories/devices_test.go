package stories

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// moreClaims are pods that share a claim, and two pods whose claims cannot be satisfied.
const moreClaims = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 1}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: hopper}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shares}
spec:
  replicas: 3
  selector: {matchLabels: {app: shares}}
  template:
    metadata: {labels: {app: shares}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimName: shared}]
      containers: [{name: app, image: nginx, resources: {requests: {cpu: 100m}, claims: [{name: gpu}]}}]
---
apiVersion: v1
kind: Pod
metadata: {name: hopper}
spec:
  nodeSelector: {karpenter.k8s.aws/instance-category: g}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: hopper}]
  containers: [{name: app, image: nginx, resources: {claims: [{name: gpu}]}}]
---
apiVersion: v1
kind: Pod
metadata: {name: lost}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: none-such}]
  containers: [{name: app, image: nginx, resources: {claims: [{name: gpu}]}}]
`

// Pods that request GPUs with dynamic resource allocation get nodes that have them, and kube-scheduler allocates the
// devices. Pods that share a claim share a node, why explains claims that cannot be satisfied, and nodes whose
// devices are no longer claimed are removed.
func TestPodsClaimDevices(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	const example = "../../examples/devices.yaml"
	if out, err := c.run("plan", "-f", example); err != nil || strings.Count(out, "g6.12xlarge") < 2 {
		t.Errorf("the forecast is not two nodes of four GPUs: %v\n%s", err, out)
	}
	c.kubectl("apply", "-f", example)
	c.wantPods(3*time.Minute, "default", "train", 3)
	c.eventually(time.Minute, func() error { return c.gpuNodes(2, "g6.12xlarge") })
	c.apply(moreClaims)
	c.wantPods(3*time.Minute, "default", "shares", 3)
	nodes := strings.Fields(c.kubectl("get", "pods", "-l", "app=shares", "-o", "jsonpath={.items[*].spec.nodeName}"))
	slices.Sort(nodes)
	if len(slices.Compact(nodes)) != 1 {
		t.Errorf("the pods that share a claim are on nodes %q", nodes)
	}
	for pod, want := range map[string]string{
		"hopper": "could be p (now g)", "lost": "resourceClaim none-such does not exist: create it",
	} {
		if got, err := c.run("why", "pod/"+pod); err != nil || !strings.Contains(got, want) {
			t.Errorf("why pod %s: %v\n%s", pod, err, got)
		}
	}
	c.kubectl("delete", "pod", "hopper", "lost")
	c.kubectl("delete", "deployment", "shares")
	c.kubectl("scale", "deployment", "train", "--replicas=1")
	c.eventually(2*time.Minute, func() error { return c.gpuNodes(1, "g6.12xlarge") })
	c.wantPods(time.Minute, "default", "train", 1)
}

// gpuNodes returns an error unless pool gpu has count NodeClaims, all of the given type and launched for NVIDIA's
// driver.
func (c *cluster) gpuNodes(count int, typ string) error {
	var found []string
	for _, claim := range c.claims() {
		if claim.Labels["karpenter.sh/nodepool"] != "gpu" {
			continue
		}
		got := claim.Labels["node.kubernetes.io/instance-type"]
		if drivers := claim.Annotations["karpenter.sh/requested-dra-drivers"]; got != typ || drivers != "gpu.nvidia.com" {
			return fmt.Errorf("NodeClaim %s is a %s for drivers %q", claim.Name, got, drivers)
		}
		found = append(found, claim.Name)
	}
	if len(found) != count {
		return fmt.Errorf("NodeClaims of pool gpu: %v, want %d", found, count)
	}
	return nil
}
