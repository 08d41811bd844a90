package why

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/record"
)

const deleted = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general, uid: p}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: general-1, uid: nc, labels: {karpenter.sh/nodepool: general}, finalizers: [karpenter.sh/termination],
  creationTimestamp: "2026-11-01T10:00:00Z", deletionTimestamp: "2026-11-01T12:00:00Z"}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status: {nodeName: n1, providerID: "aws:///us-west-2a/i-1"}
---
apiVersion: v1
kind: Node
metadata: {name: n1, uid: n-1}
spec: {providerID: "aws:///us-west-2a/i-1"}
---
apiVersion: v1
kind: Pod
metadata: {name: over, namespace: shop, uid: u}
spec: {schedulerName: another, containers: [{name: c, image: i}]}
`

// A deleted NodeClaim does not say who deleted it; the decision that was recorded does.
func TestWhyAClaimIsRemovedIsWhatWasRecorded(t *testing.T) {
	c, err := capture.Load(t.Context(), strings.NewReader(deleted), "deleted.yaml", capture.Options{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	repair := func(kind record.Kind, claim string) record.Record {
		return record.Record{Decision: record.Decision{
			Kind: kind, Why: "its Node was unhealthy for too long (node repair)",
			Removed: []record.RemovedNode{{Claim: claim, Node: "n1"}},
		}}
	}
	const byOthers = "it is being removed: its NodeClaim was deleted, by a person or another program; no reason was " +
		"recorded on it"
	for name, x := range map[string]struct {
		about []record.Record
		want  string
	}{
		"nothing": {nil, byOthers},
		"node repair": {
			[]record.Record{repair(record.Terminate, "general-1")},
			"it is being removed: its Node was unhealthy for too long (node repair)",
		},
		"an abandoned command":         {[]record.Record{repair(record.Replace, "general-1")}, byOthers},
		"an earlier claim of the Node": {[]record.Record{repair(record.Terminate, "general-0")}, byOthers},
	} {
		for _, of := range []Subject{{Kind: NodeKind, Name: "n1"}, {Kind: ClaimKind, Name: "general-1"}} {
			q := newQuestion(c, c.Snapshot(), model.Policy{}, of)
			q.past.cached = &known{history: history{all: x.about, about: x.about}}
			if found, err := q.about(t.Context(), of); !found || err != nil || q.a.Summary != x.want {
				t.Errorf("%s, %s: %q, %v; want %q", name, of.Kind, q.a.Summary, err, x.want)
			}
		}
	}
}
