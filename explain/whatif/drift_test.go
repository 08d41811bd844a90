package whatif_test

import (
	"slices"
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/explain/capture"
)

const quiet = "0 evicted, 0 unplaced, 0 kept, 2 nodes"

// Instances of an Auto Scaling group do not drift: an instance refresh of the group replaces them.
func TestNodesOfAGroupDoNotDrift(t *testing.T) {
	const group = `---
apiVersion: nodeless.sh/v1alpha1
kind: NodeGroup
metadata: {name: default}
spec: {autoScalingGroupName: workers}
status:
  maxSize: 9
  instanceTypes: [m5.large]
  capacityTypes: [on-demand]
  imageID: ami-new
  subnets: [{id: subnet-1, zone: eu-west-1a, zoneID: euw1-az1}]
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-02T10:00:00Z", reason: Ready, message: ""}]
`
	ofGroup := strings.NewReplacer("group: karpenter.k8s.aws, kind: EC2NodeClass", "group: nodeless.sh, kind: NodeGroup",
		"  nodeName: n1\n  conditions", "  nodeName: n1\n  imageID: ami-old\n  conditions")
	cluster := ofGroup.Replace(edited(t)) + group
	if got := told(mustForecast(t, cluster, agent)); got != quiet {
		t.Errorf("another image:\ngot  %s\nwant %s", got, quiet)
	}
	labelled := strings.Replace(pool, "    spec:", "    metadata: {labels: {tier: new}}\n    spec:", 1)
	if got := told(mustForecast(t, cluster, ofGroup.Replace(labelled))); got != quiet {
		t.Errorf("another label:\ngot  %s\nwant %s", got, quiet)
	}
}

// Nodes that have drifted from a pool stay if the change makes the pool match them again.
func TestARevertedPoolKeepsItsNodes(t *testing.T) {
	labelled := func(tier string) string { return "  template:\n    metadata: {labels: {tier: " + tier + "}}\n" }
	c, err := capture.Load(t.Context(), strings.NewReader(edited(t, "  template:\n", labelled("old"))), "cluster.yaml",
		capture.Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	edits := []string{"  template:\n", labelled("new")}
	for _, o := range c.Objects() {
		if p, ok := o.(*karpv1.NodePool); ok {
			for _, uid := range []string{"  uid: claim-1\n", "  uid: claim-2\n"} {
				edits = append(edits, uid, uid+`  annotations: {karpenter.sh/nodepool-hash: "`+p.Hash()+
					`", karpenter.sh/nodepool-hash-version: `+karpv1.NodePoolHashVersion+"}\n")
			}
		}
	}
	drifted := func(reason string) string {
		const initialized = "  - {type: Initialized,"
		return strings.ReplaceAll(edited(t, edits...), initialized, `  - {type: Drifted, status: "True", `+
			`lastTransitionTime: "2026-11-03T09:00:00Z", reason: `+reason+", message: \"\"}\n"+initialized)
	}
	replaced := "Replace at 0 n1 +m5.large; Replace at 70 n2 +m5.large; 2 evicted, 0 unplaced, 0 kept, 2 nodes"
	for name, c := range map[string]struct{ reason, tier, want string }{
		"the pool is as it was":                 {"NodePoolDrifted", "old", quiet},
		"the pool is another one yet":           {"NodePoolDrifted", "newer", replaced},
		"the nodes drifted from their class":    {"AMIDrift", "old", replaced},
		"the pool of drifted nodes stays":       {"NodePoolDrifted", "new", replaced},
		"the pool allows the nodes' labels now": {"RequirementsDrifted", "old", quiet},
	} {
		manifests := strings.Replace(pool, "  template:\n", labelled(c.tier), 1)
		if got := told(mustForecast(t, drifted(c.reason), manifests)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// A capture leaves out the user data of node classes, so whether a manifest changes it is not known.
func TestUserDataThatACaptureLeavesOut(t *testing.T) {
	cluster := edited(t, "  role: nodes\n", "  role: nodes\n  userData: "+capture.Redacted+"\n  metadataOptions: "+
		"{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}\n")
	said := `whether the user data of EC2NodeClass "default" changes is not known: the capture leaves it out`
	o := mustForecast(t, cluster, class+"  userData: echo hello\n")
	if got := told(o); got != quiet || !slices.Contains(o.Assumed, said) ||
		o.Changes[0] != "EC2NodeClass default is unchanged" {
		t.Errorf("%s; changes %q, assumed %q", got, o.Changes, o.Assumed)
	}
	o = mustForecast(t, cluster, class+"  userData: echo hello\n  tags: {team: shop}\n")
	if got := told(o); !strings.HasPrefix(got, "Replace") || !slices.Contains(o.Assumed, said) ||
		o.Changes[0] != "EC2NodeClass default changes: spec.tags" {
		t.Errorf("another tag: %s; changes %q, assumed %q", got, o.Changes, o.Assumed)
	}
	if o = mustForecast(t, cluster, class); slices.Contains(o.Assumed, said) {
		t.Errorf("a manifest without user data: assumed %q", o.Assumed)
	}
}

// What the pods of a DaemonSet's present template request says nothing about those of the changed one.
func TestAChangedDaemonSetIsNotLikeItsPods(t *testing.T) {
	cluster := edited(t) + "---\n" + strings.Replace(agent, "namespace: shop}",
		"namespace: shop, uid: ds, annotations: {deprecated.daemonset.template.generation: '3'}}", 1) + `---
apiVersion: v1
kind: Pod
metadata:
  name: agent-1
  namespace: shop
  uid: agent-1
  labels: {app: agent, pod-template-generation: "3"}
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: ds, controller: true}]
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 200m}}}]}
status: {phase: Running}
`
	for cpu, want := range map[string]int{"100m": 0, "1": 1} { // a node's capacity is 1930m, the third pod's request 1500m
		o := mustForecast(t, cluster, strings.Replace(agent, "100m", cpu, 1), scaledTo(t, "deployment/web=3"))
		if len(o.Unplaced) != want {
			t.Errorf("with a DaemonSet of %s: %s", cpu, told(o))
		}
	}
}
