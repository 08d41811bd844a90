package stories

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Nodes that have drifted or are not worth their price are replaced while their pods are in use.
func TestMachinesAreReplacedUnderTheirPods(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	t.Run("a label of the pool is changed", c.driftStory)
	t.Run("ten machines are half empty", c.consolidationStory)
}

// pool returns a NodePool whose nodes only accept pods that tolerate its taint.
func pool(name, disruption string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  disruption: %[2]s
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: pool, value: %[1]s, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
---
`, name, disruption)
}

// apart returns a Deployment for a pool. If alone, each pod has a node of its own.
func apart(namespace, name, cpu string, replicas int, alone bool) string {
	affinity := "{}"
	if alone {
		affinity = fmt.Sprintf("{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: %s}}}]}}", name)
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[4]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: %[1]s}
      tolerations: [{key: pool, value: %[1]s, effect: NoSchedule}]
      affinity: %[5]s
      containers: [{name: c, image: pause, resources: {requests: {cpu: %[3]s}}}]
---
`, namespace, name, cpu, replicas, affinity)
}

// poolClaims returns the NodeClaims of a pool.
func (c *cluster) poolClaims(pool string) []karpv1.NodeClaim {
	var l karpv1.NodeClaimList
	if err := c.List(context.Background(), &l, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		c.t.Fatal(err)
	}
	return l.Items
}

// ready counts the pods of an app that are ready and not being deleted.
func (c *cluster) ready(namespace, app string) int {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace(namespace),
		client.MatchingLabels{"app": app}); err != nil {
		c.t.Fatal(err)
	}
	n := 0
	for i := range pods.Items {
		for _, cond := range pods.Items[i].Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue && pods.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
}

// going counts the nodes of a pool that have the disruption taint. Nodes whose instance is being terminated no longer
// count towards budgets, as in Karpenter.
func (c *cluster) going(pool string) int {
	nodes, ended, n := c.nodes(), map[string]bool{}, 0
	for _, claim := range c.poolClaims(pool) {
		cond := claim.StatusConditions().Get(karpv1.ConditionTypeInstanceTerminating)
		ended[claim.Status.NodeName] = cond != nil && cond.IsTrue()
	}
	for _, node := range nodes {
		for _, taint := range node.Spec.Taints {
			over, there := ended[node.Name]
			if node.Labels[karpv1.NodePoolLabelKey] == pool && taint.Key == karpv1.DisruptedTaintKey && there && !over {
				n++
			}
		}
	}
	return n
}

func (c *cluster) driftStory(t *testing.T) {
	c = c.in(t, "drift")
	c.apply(pool("drift", "{consolidateAfter: Never, budgets: [{nodes: '1'}]}") + apart("drift", "web", "500m", 3, true) + `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: drift}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
`)
	c.wantPods(2*time.Minute, "drift", "web", 3)
	c.eventually(time.Minute, func() error {
		if n := c.ready("drift", "web"); n != 3 {
			return fmt.Errorf("%d pods are ready", n)
		}
		return nil
	})
	before := map[string]bool{}
	for _, claim := range c.poolClaims("drift") {
		before[claim.Name] = true
	}
	c.kubectl("patch", "nodepool", "drift", "--type", "merge", "-p",
		`{"spec":{"template":{"metadata":{"labels":{"tier":"new"}}}}}`)
	c.eventually(120*time.Second, func() error {
		if n := c.ready("drift", "web"); n < 2 {
			t.Fatalf("%d pods are ready, and the PodDisruptionBudget wants 2", n)
		}
		if n := c.going("drift"); n > 1 {
			t.Fatalf("%d nodes go at the same time, and the budget allows one", n)
		}
		claims := c.poolClaims("drift")
		for _, claim := range claims {
			if before[claim.Name] || claim.Labels["tier"] != "new" {
				return fmt.Errorf("claim %s is still there", claim.Name)
			}
		}
		if len(claims) != 3 {
			return fmt.Errorf("%d claims", len(claims))
		}
		return nil
	})
	c.wantPods(time.Minute, "drift", "web", 3)
}

func (c *cluster) consolidationStory(t *testing.T) {
	c = c.in(t, "half-empty")
	c.apply(pool("half-empty", "{consolidateAfter: 1s, budgets: [{nodes: '100%'}]}") +
		apart("half-empty", "anchor", "900m", 10, true) + apart("half-empty", "web", "500m", 10, true))
	c.wantPods(2*time.Minute, "half-empty", "anchor", 10)
	c.wantPods(time.Minute, "half-empty", "web", 10)
	if n := len(c.poolClaims("half-empty")); n != 10 {
		t.Fatalf("%d machines", n)
	}
	c.kubectl("-n", "half-empty", "patch", "deployment", "web", "--type", "json", "-p",
		`[{"op":"remove","path":"/spec/template/spec/affinity"}]`)
	c.kubectl("-n", "half-empty", "rollout", "status", "deployment", "web", "--timeout=240s")
	c.kubectl("-n", "half-empty", "delete", "deployment", "anchor")
	c.eventually(120*time.Second, func() error { // three pods fit on a node of 1.93 CPUs
		if n := len(c.poolClaims("half-empty")); n > 4 {
			return fmt.Errorf("%d machines for ten pods of half a CPU", n)
		}
		return nil
	})
	c.wantPods(time.Minute, "half-empty", "web", 10)
}
