package whatif_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/explain/whatif"
)

// kopsPool launches t3.medium, which has three network interfaces of six addresses: 17 pods, 15 of them with an
// address of their own. Bottlerocket reserves memory by the maximum of pods.
const kopsPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: workers}
spec:
  disruption: {consolidateAfter: Never, consolidationPolicy: WhenEmptyOrUnderutilized}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [t3.medium]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
---
`

func kopsClass(kubelet string) string {
	return fmt.Sprintf(`apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  kubelet: {%s}
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
---
`, kubelet)
}

func kopsDaemon(name, priority, prefixes string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[1]s, namespace: kube-system, uid: ds-%[1]s}
spec:
  selector: {matchLabels: {k8s-app: %[1]s}}
  template:
    metadata: {labels: {k8s-app: %[1]s}}
    spec:
      priorityClassName: %[2]s
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers: [{name: %[1]s, image: i, env: [{name: ENABLE_PREFIX_DELEGATION, value: "%[3]s"}]}]
---
`, name, priority, prefixes)
}

func kopsNode(name string, pods int) string {
	labels := "node.kubernetes.io/instance-type: t3.medium, topology.kubernetes.io/zone: eu-west-1a, kubernetes.io/hostname: " + name
	claim := ""
	if name == "control" {
		labels += `, node-role.kubernetes.io/control-plane: ""`
	} else {
		owned := `karpenter.sh/nodepool: workers, node.kubernetes.io/instance-type: t3.medium, topology.kubernetes.io/zone: eu-west-1a, karpenter.sh/capacity-type: on-demand`
		labels += `, karpenter.sh/nodepool: workers, karpenter.sh/registered: "true", karpenter.sh/initialized: "true", karpenter.sh/capacity-type: on-demand`
		claim = fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: claim-%[1]s, uid: claim-%[1]s, creationTimestamp: "2026-11-02T09:59:00Z", labels: {%[2]s}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: []
status:
  providerID: "aws:///eu-west-1a/i-%[1]s"
  nodeName: %[1]s
  conditions:
  - {type: Launched, status: "True", lastTransitionTime: "2026-11-02T09:59:10Z", reason: Launched, message: ""}
  - {type: Registered, status: "True", lastTransitionTime: "2026-11-02T10:00:00Z", reason: Registered, message: ""}
  - {type: Initialized, status: "True", lastTransitionTime: "2026-11-02T10:00:00Z", reason: Initialized, message: ""}
---
`, name, owned)
	}
	out := claim + fmt.Sprintf(`apiVersion: v1
kind: Node
metadata: {name: %[1]s, uid: node-%[1]s, labels: {%[2]s}}
spec: {providerID: "aws:///eu-west-1a/i-%[1]s"}
status:
  capacity: {cpu: "2", memory: 4Gi, pods: "17"}
  allocatable: {cpu: 1930m, memory: 3Gi, pods: "17"}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-02T10:00:00Z"}]
---
`, name, labels)
	for _, d := range []string{"aws-node", "kube-proxy"} {
		out += fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s-%[2]s, namespace: kube-system, uid: %[1]s-%[2]s, labels: {k8s-app: %[1]s}, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: %[1]s, uid: ds-%[1]s, controller: true}]}
spec: {nodeName: %[2]s, hostNetwork: true, containers: [{name: %[1]s, image: i, env: [{name: ENABLE_PREFIX_DELEGATION, value: "false"}]}]}
status: {phase: Running}
---
`, d, name)
	}
	return out + kopsPods(name, pods)
}

func kopsPods(node string, n int) (out string) {
	for i := range n {
		out += fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: web-%[1]s-%[2]d, namespace: shop, uid: web-%[1]s-%[2]d, creationTimestamp: "2026-11-02T10:10:00Z", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: rs, controller: true}]}
spec: {nodeName: "%[1]s", containers: [{name: c, image: i}]}
status: {phase: %[3]s}
---
`, node, i, map[bool]string{true: "Pending", false: "Running"}[node == ""])
	}
	return out
}

// hazardsOf returns the hazards of changing a cluster.
func hazardsOf(t *testing.T, cluster, changes string) []whatif.Hazard {
	t.Helper()
	o, err := forecastIn(t, cluster, whatif.Input{Gates: gates.Default()}, changes)
	if err != nil {
		t.Fatal(err)
	}
	return o.Hazards
}

// The incident of a kops cluster of t3.medium (one control-plane node, two workers, 100 replicas more than fit):
// maxPods 110 and prefix delegation at once. A plan predicts it in numbers.
func TestTheKopsAccidentIsForetold(t *testing.T) {
	const exporter = "node-exporter"
	cluster := kopsPool + kopsClass("") + kopsDaemon("aws-node", "system-node-critical", "false") +
		kopsDaemon("kube-proxy", "system-node-critical", "false") + kopsDaemon(exporter, `""`, "false") +
		kopsNode("control", 2) + kopsNode("w1", 15) + kopsNode("w2", 15) + kopsPods("", 80)
	of := func(changes string) []whatif.Hazard {
		t.Helper()
		return hazardsOf(t, cluster, changes)
	}
	all := of(kopsClass("maxPods: 110") + kopsDaemon("aws-node", "system-node-critical", "true"))
	for _, want := range []whatif.Hazard{
		{Kind: whatif.HazardAddresses, Nodes: 2, Pods: 186, Why: "2 nodes of t3.medium would take 110 pods each, 2 of them on " +
			"the host network. The VPC CNI gives a node addresses for 15 now and for 240 with the change: up to 93 pods of each " +
			"would stay ContainerCreating (failed to assign an IP address to container) where the kubelet changes before"},
		{Kind: whatif.HazardRestart, Nodes: 2, Pods: 80, Why: "kube-system/aws-node rolls and deletes each pod before it " +
			"creates the next one. 2 nodes are at the limit of pods (w1, w2), and 80 pending pods compete"},
		{Kind: whatif.HazardShutOut, Nodes: 2, Pods: 2, Why: "pods of kube-system/node-exporter have no critical priority"},
		{Kind: whatif.HazardRoll, Nodes: 1, Pods: 15, Why: "if w1 is drained before its replacement is ready, 15 pods"},
		{Kind: whatif.HazardMixed, Nodes: 1, Why: "Nodeless does not manage 1 node of the same types (control): " +
			"it keeps the old limit"},
		{Kind: whatif.HazardControl, Nodes: 1, Why: "control is the only control-plane node"},
		{Kind: whatif.HazardReserved, Nodes: 2, Why: "reserves 1023Mi more memory"},
		{Kind: whatif.HazardPrefixes, Nodes: 3, Why: "of 16 contiguous addresses"},
	} {
		found := false
		for _, h := range all {
			found = found || h.Kind == want.Kind && h.Nodes == want.Nodes && h.Pods == want.Pods && strings.Contains(h.Why, want.Why)
		}
		if !found {
			t.Errorf("no hazard %+v", want)
		}
	}
	if t.Failed() {
		for _, h := range all {
			t.Logf("%+v", h)
		}
	}

	// A higher maxPods alone would leave pods without addresses for good; the CNI's setting alone would not.
	alone := of(kopsClass("maxPods: 110"))
	if len(alone) == 0 || alone[0].Kind != whatif.HazardAddresses || !strings.Contains(alone[0].Why, "addresses for 15 now and for 15 with the change") {
		t.Errorf("maxPods alone: %+v", alone)
	}
	for _, h := range of(kopsDaemon("aws-node", "system-node-critical", "true")) {
		if h.Kind == whatif.HazardAddresses || h.Kind == whatif.HazardReserved {
			t.Errorf("prefix delegation alone: %+v", h)
		}
	}
	if none := of(kopsDaemon("aws-node", "system-node-critical", "false")); len(none) != 0 {
		t.Errorf("a change of nothing: %+v", none)
	}
}

// A node of the roll whose pods must not be evicted is named with the reason. Critical pods that are Pending already are
// counted: tools that wait for them stop at the first node.
func TestWhatHoldsUpARollIsNamed(t *testing.T) {
	const (
		budget  = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: shop}\nspec: {selector: {matchLabels: {app: %s}}, maxUnavailable: 0}\n"
		blocked = "1 node to be replaced keeps the old limit of pods as long as "
	)
	kept := strings.Replace(kopsPods("w1", 5), "labels: {app: web}", `labels: {app: web}, annotations: {karpenter.sh/do-not-disrupt: "true"}`, 1)
	critical := strings.ReplaceAll(kopsPods("", 2), "spec: {", "spec: {priorityClassName: system-cluster-critical, ")
	base := kopsPool + kopsClass("") + kopsDaemon("aws-node", "system-node-critical", "false") +
		kopsNode("control", 2) + kopsNode("w1", 0)
	find := func(cluster, kind string) (found whatif.Hazard) {
		t.Helper()
		for _, h := range hazardsOf(t, cluster, kopsClass("maxPods: 110")) {
			if h.Kind == kind {
				found = h
			}
		}
		return found
	}
	for _, c := range []struct {
		pods, kind string
		nodes, n   int
		why        string
	}{
		{kept, whatif.HazardBlocked, 1, 1, blocked + "1 pod there must not be evicted (w1: shop/web-w1-0, which has the annotation karpenter.sh/do-not-disrupt)"},
		{kopsPods("w1", 5) + fmt.Sprintf(budget, "web"), whatif.HazardBlocked, 1, 5, blocked + "5 pods there must not be evicted (w1: shop/web-w1-0, PodDisruptionBudget shop/web allows no eviction)"},
		{kopsPods("w1", 5) + fmt.Sprintf(budget, "api"), whatif.HazardBlocked, 0, 0, ""},
		{kopsPods("w1", 5) + critical, whatif.HazardStuck, 0, 2, "2 pods of critical priority are Pending already (shop/web--0, shop/web--1): tools"},
		{kopsPods("w1", 5), whatif.HazardStuck, 0, 0, ""},
	} {
		if h := find(base+c.pods, c.kind); h.Nodes != c.nodes || h.Pods != c.n || !strings.Contains(h.Why, c.why) {
			t.Errorf("%+v\nwant %d nodes, %d pods, %s", h, c.nodes, c.n, c.why)
		}
	}
}

// aws-node does not run on Windows: such nodes need no prefixes, whatever their type, and have the addresses of one
// interface.
func TestWindowsNodesTakeNoPrefixes(t *testing.T) {
	large := func(name, os string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  uid: node-%[1]s
  labels: {node.kubernetes.io/instance-type: m5.large, kubernetes.io/os: %[2]s, kubernetes.io/hostname: %[1]s}
spec: {providerID: "aws:///eu-west-1a/i-%[1]s"}
status:
  capacity: {cpu: "2", memory: 8Gi, pods: "110"}
  allocatable: {cpu: 1930m, memory: 7Gi, pods: "110"}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-02T10:00:00Z"}]
---
`, name, os)
	}
	base := kopsPool + kopsClass("") + kopsDaemon("aws-node", "system-node-critical", "false")
	both := base + large("linux", "linux") + kopsPods("linux", 20) + large("windows", "windows") + kopsPods("windows", 5)
	of := func(cluster, changes, kind string) (out []whatif.Hazard) {
		for _, h := range hazardsOf(t, cluster, changes) {
			if h.Kind == kind {
				out = append(out, h)
			}
		}
		return out
	}
	prefixes := of(both, kopsDaemon("aws-node", "system-node-critical", "true"), whatif.HazardPrefixes)
	if len(prefixes) != 1 || prefixes[0].Nodes != 1 || !strings.Contains(prefixes[0].Why, "take 2 /28 prefixes") {
		t.Errorf("%+v", prefixes)
	}
	// m5.large gives Windows 9 addresses, of which 15 pods of a drained node do not all get one.
	roll := of(base+kopsNode("w1", 15)+large("windows", "windows"), kopsClass("maxPods: 110"), whatif.HazardRoll)
	if len(roll) != 1 || roll[0].Pods != 6 {
		t.Errorf("%+v", roll)
	}
}

// A change that brings a DeviceClass does not tell which devices a cluster has whose dump says nothing of them.
func TestAForecastJudgesNoClaimsWithoutDevices(t *testing.T) {
	o, err := forecastIn(t, kopsPool+kopsClass("")+`apiVersion: v1
kind: Pod
metadata: {name: train, namespace: shop, uid: t}
spec: {containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimName: gpu}]}
`, whatif.Input{Gates: gates.Default()}, `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Unplaced) != 1 || !strings.Contains(o.Unplaced[0].Why, "not supported yet") {
		t.Errorf("%+v", o.Unplaced)
	}
}
