package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/migrate/transition"
)

// general is a pool of m5.large, with a class that no controller has resolved.
const general = `---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general, uid: general}
spec:
  limits: {cpu: LIMIT}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default, uid: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
`

// controllerPod is a pod of the chart's Deployment: it never runs on a node that it launches.
const controllerPod = `---
apiVersion: v1
kind: Pod
metadata: {name: nodeless-1, namespace: kube-system, uid: nodeless-1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: nodeless, uid: nodeless, controller: true}]}
spec:
  nodeName: n0
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}}
  containers: [{name: c, image: i}]
status: {phase: Running}
`

// The pods of a group's nodes without a place in the pools: for their labels, for a limit, and for lack of other nodes.
func TestPodsThatGetNoNodeWithoutAGroup(t *testing.T) {
	groupNodes := func(taint string) string {
		text := dump(3, "ON_DEMAND") + controllerPod
		return strings.ReplaceAll(text, "spec: {providerID:", "spec: {"+taint+"providerID:")
	}
	drained := `taints: [{key: nodeless.sh/migration, value: drain, effect: NoSchedule}], `
	for name, c := range map[string]struct {
		taint, limit string
		gone         []string
		launches     int
		unplaced     []string
	}{
		"no pool has the label": {"", "100", []string{"n0", "n1", "n2"}, 2, []string{
			"kube-system/nodeless-1", "shop/pinned",
		}},
		"nor while they are drained": {drained, "100", []string{"n0", "n1", "n2"}, 2, []string{
			"kube-system/nodeless-1", "shop/pinned",
		}},
		"the limit is too low": {"", "2", []string{"n0", "n1", "n2"}, 1, []string{
			"kube-system/nodeless-1", "shop/pinned", "shop/web-",
		}},
		"a node stays": {"", "100", []string{"n1", "n2", "unknown"}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := groupNodes(c.taint) + strings.ReplaceAll(general, "LIMIT", c.limit)
			cluster, err := capture.Load(t.Context(), strings.NewReader(text), "cluster.yaml", capture.Options{Keep: true})
			if err != nil {
				t.Fatal(err)
			}
			f, err := without(t.Context(), cluster, c.gone)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(f.Unplaced, func(a, b transition.Unplaced) int { return strings.Compare(a.Pod, b.Pod) })
			same := len(f.Unplaced) == len(c.unplaced)
			for i := range min(len(f.Unplaced), len(c.unplaced)) {
				same = same && strings.HasPrefix(f.Unplaced[i].Pod, c.unplaced[i]) && f.Unplaced[i].Why != ""
			}
			if !same || f.Launches != c.launches {
				t.Errorf("%d launches, no node for %s", f.Launches, fmt.Sprint(f.Unplaced))
			}
		})
	}
}

// A pod with a host port has no room beside another one with it, and no pool gets a node for the controller's.
func TestHostPortsNeedRoom(t *testing.T) {
	port := func(pod string) string {
		return strings.ReplaceAll(pod, "containers: [{name: c, image: i}]",
			"hostNetwork: true\n  containers: [{name: c, image: i, ports: [{containerPort: 8080, hostPort: 8080}]}]")
	}
	other := strings.NewReplacer("nodeless-1", "other-1", "name: nodeless, uid: nodeless", "name: o, uid: o", "n0", "n1")
	for taken, want := range map[string]int{controllerPod: 0, port(controllerPod): 1} {
		text := strings.ReplaceAll(dump(2, "ON_DEMAND"), "nodeSelector: {tier: old}, ", "") + port(controllerPod) +
			other.Replace(taken) + strings.ReplaceAll(general, "LIMIT", "100")
		cluster, err := capture.Load(t.Context(), strings.NewReader(text), "cluster.yaml", capture.Options{Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		f, err := without(t.Context(), cluster, []string{"n0"})
		if err != nil || len(f.Unplaced) != want || want > 0 && f.Unplaced[0].Pod != "kube-system/nodeless-1" {
			t.Errorf("want %d pods without a node: %+v, %v", want, f, err)
		}
	}
}
