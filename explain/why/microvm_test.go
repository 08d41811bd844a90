package why_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/why"
)

// alone is a cluster with a microVM and a node that no pool owns, and pods of every sort that wait for such nodes or
// run on them.
const alone = `
apiVersion: v1
kind: Node
metadata:
  name: fargate-ip-10-0-0-1
  uid: n-1
  creationTimestamp: "2026-11-01T10:00:00Z"
  labels: {eks.amazonaws.com/compute-type: fargate, topology.kubernetes.io/zone: us-west-2a, karpenter.sh/initialized: "true", karpenter.sh/registered: "true"}
spec: {providerID: "nodeless:///host/microvm-u1", taints: [{key: eks.amazonaws.com/compute-type, value: fargate, effect: NoSchedule}]}
status:
  allocatable: {cpu: 250m, memory: 512Mi, pods: "0"}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-01T10:00:00Z"}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: fargate-u1, uid: c-1, labels: {eks.amazonaws.com/compute-type: fargate}}
spec: {nodeClassRef: {group: nodeless.sh, kind: FargateProfile, name: apps}, requirements: []}
status:
  providerID: nodeless:///host/microvm-u1
  nodeName: fargate-ip-10-0-0-1
  conditions: [{type: Launched, status: "True"}, {type: Registered, status: "True"}, {type: Initialized, status: "True"}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: fargate-u3, uid: c-3, labels: {eks.amazonaws.com/compute-type: fargate}}
spec: {nodeClassRef: {group: nodeless.sh, kind: FargateProfile, name: apps}, requirements: []}
---
apiVersion: v1
kind: Node
metadata: {name: stranger, uid: n-2, labels: {node.kubernetes.io/instance-type: m5.large}}
status: {allocatable: {cpu: "2", memory: 8Gi, pods: "0"}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: shop, uid: u1, creationTimestamp: "2026-11-01T09:59:00Z"}
spec: {schedulerName: fargate-scheduler, nodeName: fargate-ip-10-0-0-1, containers: [{name: c, image: i}]}
status: {phase: Running, conditions: [{type: PodScheduled, status: "True", lastTransitionTime: "2026-11-01T10:00:01Z"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: refused, namespace: shop, uid: u2, labels: {eks.amazonaws.com/fargate-profile: apps}}
spec: {schedulerName: fargate-scheduler, containers: [{name: c, image: i}]}
status:
  conditions:
  - {type: PodScheduled, status: "False", reason: POD_UNSUPPORTED_ON_FARGATE}
---
apiVersion: v1
kind: Pod
metadata: {name: starts, namespace: shop, uid: u3}
spec: {schedulerName: fargate-scheduler, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: shop, uid: u4, labels: {eks.amazonaws.com/fargate-profile: apps}}
spec: {schedulerName: fargate-scheduler, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere, namespace: shop, uid: u5}
spec: {nodeName: never-there, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-microvm, namespace: shop, uid: u6, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: d, controller: true}]}
spec:
  containers: [{name: c, image: i}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchFields: [{key: metadata.name, operator: In, values: [fargate-ip-10-0-0-1]}]}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-stranger, namespace: shop, uid: u7, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: d, controller: true}]}
spec:
  containers: [{name: c, image: i}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchFields: [{key: metadata.name, operator: In, values: [stranger]}]}]}}}
`

func TestWhatRunsOnANodeOfItsOwn(t *testing.T) {
	c, err := capture.Load(t.Context(), strings.NewReader(alone), "alone.yaml", capture.Options{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	refused := c.State.Pod(types.NamespacedName{Namespace: "shop", Name: "refused"}).DeepCopy()
	// a dump omits it
	refused.Status.Conditions[0].Message = "Pod not supported on Fargate: fields not supported: HostNetwork"
	c.State.Update(refused)
	for question, want := range map[string][]string{
		"pod/runs": {
			"a node of its own", "fargate-scheduler gave it a node of its own", "evictable",
			"no: its node runs no other pod",
		},
		"pod/refused": {
			"it gets no microVM: Pod not supported on Fargate", "POD_UNSUPPORTED_ON_FARGATE",
			"compute-type: ec2", "profile     apps",
		},
		"pod/starts":               {"its microVM is starting: the cloud has not launched it yet", "fargate-u3"},
		"pod/new":                  {"FargateProfile apps selects it, and fargate-scheduler has not given it a microVM yet"},
		"pod/nowhere":              {"bound to node never-there, which does not exist"},
		"pod/agent-microvm":        {"keep the DaemonSet off such nodes", "eks.amazonaws.com/compute-type"},
		"pod/agent-stranger":       {"it belongs to no NodePool, so Nodeless does not replace it"},
		"node/fargate-ip-10-0-0-1": {"it belongs to pod shop/runs alone and is removed when that pod ends or is deleted"},
		"nodeclaim/fargate-u1":     {"it belongs to pod shop/runs alone"},
	} {
		of, err := why.Parse("shop", question)
		if err != nil {
			t.Fatal(err)
		}
		a, err := why.Ask(t.Context(), c, model.Policy{}, of)
		if err != nil {
			t.Errorf("%s: %v", question, err)
			continue
		}
		var b strings.Builder
		if err := a.Text(&b, why.Format{}); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", question, w, b.String())
			}
		}
		for _, bad := range []string{"NodePool  ", "pool  ", "kube-scheduler", "if that pays"} {
			if strings.Contains(b.String(), bad) {
				t.Errorf("%s: %q in\n%s", question, bad, b.String())
			}
		}
	}
}
