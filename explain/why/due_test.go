package why_test

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/why"
)

const idle = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general, uid: p, creationTimestamp: "2026-11-01T10:00:00Z"}
spec:
  disruption: {consolidateAfter: 30s, budgets: [{nodes: BUDGET}]}
  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default, uid: c}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: general-1, uid: nc, creationTimestamp: "2026-11-01T10:00:00Z", labels: {karpenter.sh/nodepool: general}}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status:
  providerID: aws:///us-west-2a/i-1
  nodeName: n1
  conditions:
  - {type: Launched, status: "True"}
  - {type: Registered, status: "True"}
  - {type: Initialized, status: "True", lastTransitionTime: "2026-11-01T10:00:40Z"}
---
apiVersion: v1
kind: Node
metadata:
  name: n1
  uid: n-1
  creationTimestamp: "2026-11-01T10:00:30Z"
  labels: {karpenter.sh/nodepool: general, karpenter.sh/registered: "true", karpenter.sh/initialized: "true", karpenter.sh/capacity-type: on-demand,
    topology.kubernetes.io/zone: us-west-2a, node.kubernetes.io/instance-type: m5.large, kubernetes.io/arch: amd64, kubernetes.io/os: linux}
spec: {providerID: "aws:///us-west-2a/i-1"}
status:
  allocatable: {cpu: 1930m, memory: 7Gi, pods: "29"}
  capacity: {cpu: "2", memory: 8Gi, pods: "29"}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-01T10:00:40Z", lastHeartbeatTime: "2026-11-01T12:00:00Z"}]
---
apiVersion: v1
kind: Pod
metadata: {name: over, namespace: shop, uid: u, creationTimestamp: "2026-11-01T12:00:00Z"}
spec: {schedulerName: another, containers: [{name: c, image: i}]}
`

// For a node that nothing keeps and whose removal has not begun, the answer is just that, and when the controller
// looks next; otherwise it names the budget that keeps the node.
func TestARemovalThatHasNotBegunIsNotSaidToBeUnderWay(t *testing.T) {
	for budget, want := range map[string][]string{
		`"1"`: {
			"nothing keeps it; its removal has not started yet", "next     remove n1", "it is empty",
			"at once if something changes, else within 5m",
		},
		`"0"`: {"spec.disruption.budgets[0] (nodes: 0) of NodePool general allows 0 of its 1 node to be removed at a time; clears when the budget allows more"},
	} {
		c, err := capture.Load(t.Context(), strings.NewReader(strings.Replace(idle, "BUDGET", budget, 1)), "idle.yaml",
			capture.Options{Region: "us-west-2"})
		if err != nil {
			t.Fatal(err)
		}
		a, err := why.Ask(t.Context(), c, model.Policy{}, why.Subject{Kind: why.NodeKind, Name: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := a.Text(&b, why.Format{}); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("budget %s: no %q in\n%s", budget, w, b.String())
			}
		}
		if (a.Verdict == why.Due) != (budget == `"1"`) {
			t.Errorf("budget %s: the verdict is %s", budget, a.Verdict)
		}
	}
}
