package simulate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

const pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general, uid: p, creationTimestamp: "2026-11-01T10:00:00Z"}
spec:
  disruption: {consolidateAfter: 0s, budgets: [{nodes: "1"}]}
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
`

const node = `---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: NAME, uid: claim-NAME, creationTimestamp: "2026-11-01T10:00:00Z",
  labels: {karpenter.sh/nodepool: general}}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status:
  providerID: aws:///us-west-2a/i-NAME
  nodeName: NAME
  conditions:
  - {type: Launched, status: "True"}
  - {type: Registered, status: "True"}
  - {type: Initialized, status: "True", lastTransitionTime: "2026-11-01T10:00:40Z"}
  - {type: Consolidatable, status: "True", lastTransitionTime: "2026-11-01T11:00:00Z"}
---
apiVersion: v1
kind: Node
metadata:
  name: NAME
  uid: NAME
  creationTimestamp: "2026-11-01T10:00:30Z"
  labels: {karpenter.sh/nodepool: general, karpenter.sh/registered: "true", karpenter.sh/initialized: "true",
    karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: us-west-2a,
    node.kubernetes.io/instance-type: m5.large, kubernetes.io/arch: amd64, kubernetes.io/os: linux}
spec: {providerID: "aws:///us-west-2a/i-NAME"}
status:
  allocatable: {cpu: 1930m, memory: 7Gi, pods: "29"}
  capacity: {cpu: "2", memory: 8Gi, pods: "29"}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-01T10:00:40Z",
    lastHeartbeatTime: "2026-11-01T12:00:00Z"}]
---
apiVersion: v1
kind: Pod
metadata: {name: on-NAME, namespace: shop, uid: pod-NAME, creationTimestamp: "2026-11-01T11:59:55Z",
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: rs, controller: true}]}
spec: {nodeName: NAME, containers: [{name: c, image: i, resources: {requests: {cpu: 900m, memory: 1Gi}}}]}
status: {phase: Running, startTime: "2026-11-01T11:59:55Z"}
`

// A capture is decided with the policy of a controller without flags: moving pods that are seconds old costs more than
// it saves, as `nodeless why --from` says.
func TestACaptureIsDecidedAsTheControllerWould(t *testing.T) {
	dump := pool + strings.ReplaceAll(node, "NAME", "n1") + strings.ReplaceAll(node, "NAME", "n2")
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	c := New()
	c.SetArgs([]string{file, "-o", "json", "--region", "us-west-2"})
	c.SetOut(&out)
	c.SetErr(&notes)
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err, notes.String())
	}
	var r simulated
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if p := r.Disrupt; len(p.Commands)+len(p.Removals) > 0 || len(p.Kept) != 2 ||
		p.Kept[0].Reason.Rule != model.RulePayback {
		t.Errorf("got %+v, want both nodes to be kept: moving their pods does not pay back", p)
	}
}
