package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// removing answers about a node that is being removed.
func (q *nodeQuestion) removing(ctx context.Context) {
	claim := q.claim
	why := cmp.Or(q.terminatedBecause(ctx),
		translate.RemovalCause(claim, q.c.State.NodePool(claim.Labels[karpv1.NodePoolLabelKey]), q.s.Now))
	if why == "" && q.node != nil && q.node.DeletionTimestamp != nil {
		why = "its Node was deleted by a person or another program"
	}
	q.conclude(q.state(), Removing, "it is being removed: %s", cmp.Or(why, "it has taint "+karpv1.DisruptedTaintKey))
	if c, ok, err := translate.CommandOf(claim); ok && err == nil {
		q.command(&c)
	}
	if claim.DeletionTimestamp != nil {
		q.sayf("deleted", "%s ago", q.ago(claim.DeletionTimestamp.Time))
		if until := claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]; until != "" {
			q.say("deadline", until)
		}
	}
	q.podsLeft()
	q.volumesLeft(ctx)
	q.progress()
}

// maxNamed is how many volumes are named.
const maxNamed = 5

// volumesLeft says which volumes are still attached to a node whose pods are gone. The controller names their
// VolumeAttachments, and volumesOf adds their PersistentVolumes.
func (q *nodeQuestion) volumesLeft(ctx context.Context) {
	c := conditions.Of(q.claim, karpv1.ConditionTypeVolumesDetached)
	if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != awaitingDetachment || c.Message == "" ||
		c.Message == c.Reason { // as Karpenter writes it
		return
	}
	names, least := strings.Split(c.Message, ", "), ""
	if strings.HasSuffix(c.Message, "...") { // cut off
		names, least = names[:len(names)-1], "at least "
	}
	volumes := volumesOf(ctx, q.c, names)
	q.sayf("waits for", "the CSI driver to detach %s%s: %s", least, reason.Count(len(volumes), "volume"),
		reason.Some(volumes, maxNamed))
}

// reader reads an object of any kind.
type reader interface {
	Get(ctx context.Context, key client.ObjectKey, into client.Object) error
}

// volumesOf names the PersistentVolumes of VolumeAttachments, or the VolumeAttachment alone if it may not be read.
func volumesOf(ctx context.Context, r reader, attachments []string) []string {
	out := slices.Clone(attachments)
	for i, name := range attachments[:min(maxNamed, len(attachments))] {
		var a storagev1.VolumeAttachment
		if err := r.Get(ctx, client.ObjectKey{Name: name}, &a); err == nil && a.Spec.Source.PersistentVolumeName != nil {
			out[i] = *a.Spec.Source.PersistentVolumeName + " (VolumeAttachment " + name + ")"
		}
	}
	return out
}

// awaitingDetachment is the reason of condition VolumesDetached while volumes are attached, as in Karpenter (v1.14.1,
// pkg/controllers/node/termination).
const awaitingDetachment = "AwaitingVolumeDetachment"

// terminatedBecause returns why a deleted NodeClaim was deleted, as recorded then; "" if that was not recorded. The
// NodeClaim itself does not tell a deletion by Nodeless, such as for node repair, from one by a person.
func (q *nodeQuestion) terminatedBecause(ctx context.Context) string {
	if q.claim.DeletionTimestamp == nil {
		return ""
	}
	h, err := q.history(ctx, q.a.Subject)
	if err != nil {
		return "" // decided says so
	}
	for i := range slices.Backward(h.about) {
		r := &h.about[i]
		if r.Kind == record.Terminate &&
			slices.ContainsFunc(r.Removed, func(m record.RemovedNode) bool { return m.Claim == q.claim.Name }) {
			return r.Why
		}
	}
	return ""
}

// command reports the progress of the command that removes the node.
func (q *nodeQuestion) command(c *translate.Command) {
	q.sayf("disruption", "%s, started %s ago: %s", c.ID[:min(12, len(c.ID))], q.ago(c.Since),
		strings.Join(victims(*c), ", "))
	if c.Launches == 0 {
		q.say("replacement", "none: other nodes have room for its pods")
		return
	}
	waits := false
	for _, name := range c.Replacements {
		claim := q.c.State.Claim(name)
		if claim == nil {
			q.sayf("replacement", "nodeclaim %s, which no longer exists", name)
			continue
		}
		how := "is ready"
		if lacks := firstLacking(claim); lacks != "" {
			how, waits = "is not ready: "+lacks, true
		}
		q.sayf("replacement", "nodeclaim %s (%s) %s", name, cmp.Or(claim.Labels[model.LabelInstanceType], "not launched yet"),
			how)
	}
	if waits {
		q.sayf("deadline", "%s: without a ready replacement these nodes are kept",
			stamp(c.Since.Add(cycle.ReplacementTimeout(q.commands()))))
	}
}

// commands counts the commands in progress.
func (q *nodeQuestion) commands() int {
	ids := map[string]bool{}
	for _, claim := range q.c.State.Claims() {
		if c, ok, err := translate.CommandOf(claim); ok && err == nil {
			ids[c.ID] = true
		}
	}
	return len(ids)
}

// podsLeft says which pods are left on a node that is being removed, and what blocks their eviction.
func (q *nodeQuestion) podsLeft() {
	n := q.n
	var pods, kept []string
	for _, pod := range q.c.State.PodsOnNode(n.Name) {
		info := translate.ReadPod(pod)
		if info.Terminal || info.Daemon() {
			continue
		}
		pods = append(pods, pod.Namespace+"/"+pod.Name)
		if info.HeldUntil.After(q.s.Now) {
			kept = append(kept, fmt.Sprintf("%s/%s by %s", pod.Namespace, pod.Name, translate.HeldBy(pod)))
		}
	}
	for i := range n.Pods {
		if p := &n.Pods[i]; p.EvictionBlocked != "" {
			kept = append(kept, fmt.Sprintf("%s/%s by %s", p.Namespace, p.Name, p.EvictionBlocked))
		}
	}
	if len(pods) == 0 {
		q.say("pods left", "none that have to be evicted")
	} else {
		q.sayf("pods left", "%s: %s", reason.Count(len(pods), "pod"), reason.Some(pods, 5))
	}
	if len(kept) > 0 {
		q.say("blocked", reason.Some(kept, 5))
	}
}

// steps are the conditions of a NodeClaim, in order.
var steps = []string{
	karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized,
	karpv1.ConditionTypeDrifted, karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached,
	karpv1.ConditionTypeInstanceTerminating,
}

// progress says which steps a NodeClaim has reached.
func (q *nodeQuestion) progress() {
	claim := q.claim
	for _, step := range steps {
		for _, c := range claim.Status.Conditions {
			if c.Type != step || c.Type == karpv1.ConditionTypeDrifted && c.Status != metav1.ConditionTrue {
				continue
			}
			switch c.Status {
			case metav1.ConditionTrue:
				took := ""
				if d := c.LastTransitionTime.Sub(claim.CreationTimestamp.Time); d >= 0 && claim.DeletionTimestamp == nil {
					took = " after " + duration.HumanDuration(d)
				}
				q.sayf(c.Type, "yes%s%s", took, inBrackets(c.Type, c.Reason))
			default:
				q.sayf(c.Type, "not yet%s", because(unlike(c.Type, c.Reason), c.Message))
			}
		}
	}
}

func inBrackets(step, reason string) string {
	if reason == "" || reason == step {
		return ""
	}
	return " (" + reason + ")"
}

func unlike(step, reason string) string {
	if reason == step {
		return ""
	}
	return reason
}

// firstLacking returns the first step that a NodeClaim has not reached; "" if it is initialized.
func firstLacking(claim *karpv1.NodeClaim) string {
	said := map[string]string{}
	for _, c := range claim.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			said[c.Type] = "yes"
		} else {
			said[c.Type] = c.Message
		}
	}
	for _, step := range []struct{ condition, text string }{
		{karpv1.ConditionTypeLaunched, "the cloud has not launched it yet"},
		{karpv1.ConditionTypeRegistered, "it is launched, but its Node has not registered yet"},
		{karpv1.ConditionTypeInitialized, "its Node has registered, but is not ready for pods yet"},
	} {
		if message := said[step.condition]; message != "yes" {
			if message != "" && !strings.HasPrefix(message, "object is awaiting reconciliation") {
				return step.text + ": " + message
			}
			return step.text
		}
	}
	return ""
}
