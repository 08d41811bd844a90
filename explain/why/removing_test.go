package why

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// attachments are VolumeAttachments with the name of their PersistentVolume.
type attachments map[string]string

func (as attachments) Get(_ context.Context, key client.ObjectKey, into client.Object) error {
	volume, ok := as[key.Name]
	if !ok {
		return errors.New("forbidden")
	}
	into.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName = &volume
	return nil
}

// The pods of a node are gone, but its volumes are still attached: the answer names them.
func TestWhyANodeWithoutPodsIsNotTerminatedYet(t *testing.T) {
	for message, want := range map[string]string{
		"csi-1, csi-2":             "the CSI driver to detach 2 volumes: csi-1, csi-2",
		"csi-1, csi-2, csi-3...":   "the CSI driver to detach at least 2 volumes: csi-1, csi-2",
		"AwaitingVolumeDetachment": "", // as Karpenter writes it
	} {
		dump := strings.Replace(deleted, `status: {nodeName: n1,`, `status: {nodeName: n1, conditions: [{type: VolumesDetached,
  status: Unknown, reason: AwaitingVolumeDetachment, message: "`+message+`"}],`, 1)
		c, err := capture.Load(t.Context(), strings.NewReader(dump), "deleted.yaml", capture.Options{Partial: true})
		if err != nil {
			t.Fatal(err)
		}
		a, err := Ask(t.Context(), c, model.Policy{}, Subject{Kind: NodeKind, Name: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		said := func(f Fact) bool { return f.Label == "waits for" && strings.Contains(f.Text, "detach") }
		if i := slices.IndexFunc(a.Facts, said); (i < 0) != (want == "") || i >= 0 && a.Facts[i].Text != want {
			t.Errorf("%s: not %q in %v", message, want, a.Facts)
		}
	}
	got := volumesOf(t.Context(), attachments{"csi-1": "pv-db"}, []string{"csi-1", "csi-2"})
	if want := []string{"pv-db (VolumeAttachment csi-1)", "csi-2"}; !slices.Equal(got, want) {
		t.Errorf("volumes %v, want %v", got, want)
	}
}
