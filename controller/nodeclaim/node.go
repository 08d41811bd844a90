package nodeclaim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

const (
	// excludeLabel excludes a Node from load balancers.
	excludeLabel, excludeValue = corev1.LabelNodeExcludeBalancers, "karpenter"
	// settleTime is how long an instance is kept after its Node began to refuse pods: a scheduler that has not heard of
	// that may still bind some.
	settleTime = time.Second
	// untilEvent requests no further call: an event triggers it.
	untilEvent = time.Duration(-1)
	// volumesGivenUp is the reason of VolumesDetached once volumes are no longer waited for.
	volumesGivenUp = "TerminationGracePeriodElapsed"
)

// nodeTerminator finishes deleted Nodes, whoever deleted them: drain, volumes, instance, finalizer.
type nodeTerminator struct {
	*objects
	instances *instances
	drainer   *drainer
}

// reconcile advances the termination of one Node.
func (t *nodeTerminator) reconcile(ctx context.Context, name string) (time.Duration, error) {
	node := &corev1.Node{}
	if err := t.cache.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	node = t.wroteNodes.Newest(node).DeepCopy()
	if node.DeletionTimestamp == nil || !slices.Contains(node.Finalizers, karpv1.TerminationFinalizer) {
		return 0, nil
	}
	claim, err := t.claimOf(ctx, node)
	if err != nil || !t.manages(node, claim) {
		return 0, err
	}
	if claim != nil {
		if err := t.deleteClaim(ctx, claim, "node_deleted"); err != nil {
			return 0, err
		}
	}
	id := catalog.InstanceID(node.Spec.ProviderID)
	gone, err := t.instanceGone(ctx, node, id)
	if err != nil {
		return 0, err
	}
	if !gone {
		before := claim.DeepCopy()
		if again, err := t.empty(ctx, node, claim); again != 0 || err != nil {
			return nextLook(node, again), err
		}
		if err := t.noteTerminating(ctx, before, claim); err != nil {
			return 0, err
		}
		if before != nil && !conditions.IsTrue(before, karpv1.ConditionTypeDrained) {
			t.metrics.NodeDrained(node)
		}
		if again, err := t.instances.terminate(ctx, id); again > 0 || err != nil {
			return again, err
		}
	}
	if id != "" {
		if err := t.drainer.removeLost(ctx, node.Name); err != nil {
			return 0, err
		}
	}
	return 0, t.releaseNode(ctx, node)
}

// nextLook returns when to call reconcile again for a Node that is not empty in d. If the Node is not ready, its
// instance may end, and no event shows that.
func nextLook(node *corev1.Node, d time.Duration) time.Duration {
	if conditions.NodeReady(node) || d >= 0 && d < maxPoll {
		return d
	}
	return maxPoll
}

// manages reports whether a Node is managed here: its claim decides or, if it has none, its label.
func (t *nodeTerminator) manages(node *corev1.Node, claim *karpv1.NodeClaim) bool {
	if claim != nil {
		return t.cluster.Manages(claim.Spec.NodeClassRef)
	}
	return t.cluster.ManagesNode(node)
}

// claimOf returns the newest known state of a Node's claim, or nil if it has none.
func (t *nodeTerminator) claimOf(ctx context.Context, node *corev1.Node) (*karpv1.NodeClaim, error) {
	claims, err := t.claimsOf(ctx, node.Spec.ProviderID)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	return t.wroteClaims.Newest(&claims[0]).DeepCopy(), nil
}

// instanceGone reports whether a Node's instance is already gone, so that there is nothing to drain.
func (t *nodeTerminator) instanceGone(ctx context.Context, node *corev1.Node, id string) (bool, error) {
	if id == "" || t.state.instances.get(id).gone {
		return true, nil
	}
	if conditions.NodeReady(node) {
		return false, nil
	}
	gone, err := t.instances.isGone(ctx, id)
	if gone {
		t.state.instances.update(id, func(s *instanceState) { s.gone = true })
	}
	return gone, err
}

// empty removes pods and volumes from a Node, and returns when to call it again; 0 once the Node is empty.
func (t *nodeTerminator) empty(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (time.Duration, error) {
	if err := t.refusePods(ctx, node); err != nil {
		return 0, err
	}
	end := deadline(claim)
	t.noteDeadline(node, end)
	again, err := t.drainer.drain(ctx, node, claim)
	if again != 0 || err != nil {
		return again, err
	}
	// An older state of the Node may have arrived in the meantime: then it refuses pods from now on.
	refuses := t.state.nodes.update(node.Name, func(s *nodeState) { s.refuse(t.now()) })
	if left := t.until(refuses.refusesSince, settleTime); left > 0 {
		return left, nil
	}
	volumes, err := t.attached(ctx, node)
	if err != nil || len(volumes) == 0 {
		return 0, err
	}
	if !end.IsZero() && !t.now().Before(end) {
		if claim != nil {
			claim.StatusConditions().SetFalse(karpv1.ConditionTypeVolumesDetached, volumesGivenUp, strings.Join(volumes, ", "))
		}
		return 0, nil
	}
	const awaiting = "AwaitingVolumeDetachment"
	names := strings.Join(volumes, ", ")
	t.recorder.Event(node, corev1.EventTypeNormal, awaiting,
		fmt.Sprintf("Awaiting deletion of bound volumeattachments (%s)", names))
	if err := t.noteWaiting(ctx, claim, karpv1.ConditionTypeVolumesDetached, awaiting, names); err != nil {
		return 0, err
	}
	if end.IsZero() {
		return untilEvent, nil
	}
	return end.Sub(t.now()), nil
}

// refusePods keeps new pods and load balancers away from a Node.
func (t *nodeTerminator) refusePods(ctx context.Context, node *corev1.Node) error {
	before := node.DeepCopy()
	if !hasTaint(node, karpv1.DisruptedNoScheduleTaint) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
		node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[excludeLabel] = excludeValue
	if err := t.writeNode(ctx, before, node); err != nil {
		return err
	}
	t.noteRefusal(node)
	return nil
}

// noteRefusal records since when a Node refuses pods, or that it does not.
func (o *objects) noteRefusal(node *corev1.Node) {
	refuses := hasTaint(node, karpv1.DisruptedNoScheduleTaint)
	o.state.nodes.update(node.Name, func(s *nodeState) {
		if refuses {
			s.refuse(o.now())
		} else {
			s.refusesSince, s.deadlineNoted = time.Time{}, false
		}
	})
}

// refuse records that the Node refuses pods, from now on unless it already did.
func (s *nodeState) refuse(now time.Time) {
	if s.refusesSince.IsZero() {
		s.refusesSince = now
	}
}

// noteDeadline records an event on a Node, once, with the time by which its pods will be gone.
func (t *nodeTerminator) noteDeadline(node *corev1.Node, end time.Time) {
	if end.IsZero() {
		return
	}
	noted := false
	t.state.nodes.update(node.Name, func(s *nodeState) { noted, s.deadlineNoted = s.deadlineNoted, true })
	if !noted {
		t.recorder.Event(node, corev1.EventTypeWarning, graceExpiring,
			"All pods will be deleted by "+end.Format(time.RFC3339))
	}
}

// noteWaiting writes on the claim what its termination waits for.
func (o *objects) noteWaiting(ctx context.Context, claim *karpv1.NodeClaim, condition, reason, message string) error {
	if claim == nil {
		return nil
	}
	before := claim.DeepCopy()
	claim.StatusConditions().SetUnknownWithReason(condition, reason, truncate(message))
	return client.IgnoreNotFound(o.writeStatus(ctx, before, claim))
}

// noteTerminating writes on the claim, at once, that its Node is empty and its instance is being terminated.
func (t *nodeTerminator) noteTerminating(ctx context.Context, before, claim *karpv1.NodeClaim) error {
	if claim == nil {
		return nil
	}
	found := claim.StatusConditions()
	if c := found.Get(karpv1.ConditionTypeVolumesDetached); c == nil || c.Reason != volumesGivenUp {
		found.SetTrue(karpv1.ConditionTypeVolumesDetached)
	}
	found.SetTrue(karpv1.ConditionTypeDrained)
	found.SetTrue(karpv1.ConditionTypeInstanceTerminating)
	return client.IgnoreNotFound(t.writeStatus(ctx, before, claim))
}

// attached names the VolumeAttachments of a Node that must be removed first, except those of pods that stay to the
// end.
func (t *nodeTerminator) attached(ctx context.Context, node *corev1.Node) ([]string, error) {
	var list storagev1.VolumeAttachmentList
	if err := t.cache.List(ctx, &list, client.MatchingFields{byNodeName: node.Name}); err != nil {
		return nil, fmt.Errorf("list VolumeAttachments of Node %s: %w", node.Name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	pods, err := podsOn(ctx, t.cache, node.Name)
	if err != nil {
		return nil, err
	}
	staying, err := t.volumesOf(ctx, pods)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		a := &list.Items[i]
		if name := a.Spec.Source.PersistentVolumeName; name != nil && !staying[*name] {
			out = append(out, a.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// volumesOf names the PersistentVolumes that pods use. It reads their claims one by one: only pods that stay to the
// end have any.
func (t *nodeTerminator) volumesOf(ctx context.Context, pods []corev1.Pod) (map[string]bool, error) {
	out := map[string]bool{}
	for i := range pods {
		if phase := pods[i].Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			continue // its volumes are being detached
		}
		for _, v := range pods[i].Spec.Volumes {
			var name string
			switch {
			case v.PersistentVolumeClaim != nil:
				name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				name = pods[i].Name + "-" + v.Name
			default:
				continue
			}
			var claim corev1.PersistentVolumeClaim
			err := t.client.Get(ctx, client.ObjectKey{Namespace: pods[i].Namespace, Name: name}, &claim)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read PersistentVolumeClaim %s/%s: %w", pods[i].Namespace, name, err)
			}
			out[claim.Spec.VolumeName] = true
		}
	}
	return out, nil
}
