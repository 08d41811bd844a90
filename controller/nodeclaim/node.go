package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// excludeLabel takes a Node out of load balancers.
const excludeLabel, excludeValue = corev1.LabelNodeExcludeBalancers, "karpenter"

// node ends one Node that is being deleted, whoever asked for it: drain, volumes, machine, finalizer.
func (l *Lifecycle) node(ctx context.Context, name string) (time.Duration, error) {
	node := &corev1.Node{}
	if err := l.o.Cache.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	node = l.wroteNodes.Newest(node).DeepCopy()
	if node.DeletionTimestamp == nil || !slices.Contains(node.Finalizers, karpv1.TerminationFinalizer) {
		return 0, nil
	}
	claim, err := l.claimOfNode(ctx, node)
	if err != nil {
		return 0, err
	}
	if claim != nil {
		if err := l.deleteClaim(ctx, claim, "node_deleted"); err != nil {
			return 0, err
		}
	}
	id := machineID(node.Spec.ProviderID)
	gone, err := l.lost(ctx, node, id)
	if err != nil {
		return 0, err
	}
	if !gone {
		before := claim.DeepCopy()
		if again, err := l.empty(ctx, node, claim); again != 0 || err != nil {
			return again, err
		}
		if err := l.noteTerminating(ctx, before, claim); err != nil {
			return 0, err
		}
		if before != nil && !conditions.IsTrue(before, karpv1.ConditionTypeDrained) {
			l.metrics.NodeDrained(node)
		}
		if again, err := l.terminate(ctx, id); again > 0 || err != nil {
			return again, err
		}
	}
	return 0, l.releaseNode(ctx, node)
}

// claimOfNode is the newest known state of a Node's claim, nil if it has none.
func (l *Lifecycle) claimOfNode(ctx context.Context, node *corev1.Node) (*karpv1.NodeClaim, error) {
	claims, err := l.claimsOf(ctx, node.Spec.ProviderID)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	return l.wroteClaims.Newest(&claims[0]).DeepCopy(), nil
}

// lost reports whether the machine of a Node is gone already, so that there is nothing to drain.
func (l *Lifecycle) lost(ctx context.Context, node *corev1.Node, id string) (bool, error) {
	if id == "" || l.isGone(id) {
		return true, nil
	}
	if isReady(node) {
		return false, nil
	}
	_, err := l.o.Cloud.Get(ctx, id)
	if errors.Is(err, cloud.ErrNotFound) {
		l.mu.Lock()
		l.gone[id] = true
		l.mu.Unlock()
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for machine %s: %w", id, err)
	}
	return false, nil
}

// untilEvent asks for no other look: what is waited for is an event.
const untilEvent = time.Duration(-1)

// empty takes pods and volumes off a machine. 0 means that it is empty.
func (l *Lifecycle) empty(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (time.Duration, error) {
	if err := l.refusePods(ctx, node); err != nil {
		return 0, err
	}
	end := deadline(claim)
	l.tellGrace(node, end)
	again, err := l.drain(ctx, node, claim)
	if again != 0 || err != nil {
		return again, err
	}
	if left := l.unsettled(node.Name); left > 0 {
		return left, nil
	}
	volumes, err := l.attached(ctx, node)
	if err != nil || len(volumes) == 0 {
		return 0, err
	}
	if !end.IsZero() && !l.now().Before(end) {
		if claim != nil {
			claim.StatusConditions().SetFalse(karpv1.ConditionTypeVolumesDetached, volumesGivenUp, strings.Join(volumes, ", "))
		}
		return 0, nil // the time is up
	}
	l.o.Recorder.Event(node, corev1.EventTypeNormal, "AwaitingVolumeDetachment",
		fmt.Sprintf("Awaiting deletion of bound volumeattachments (%s)", strings.Join(volumes, ", ")))
	if err := l.noteWaiting(ctx, claim, karpv1.ConditionTypeVolumesDetached, "AwaitingVolumeDetachment", strings.Join(volumes, ", ")); err != nil {
		return 0, err
	}
	if end.IsZero() {
		return untilEvent, nil
	}
	return end.Sub(l.now()), nil
}

// noteWaiting says on the claim what its end waits for.
func (l *Lifecycle) noteWaiting(ctx context.Context, claim *karpv1.NodeClaim, condition, reason, message string) error {
	if claim == nil {
		return nil
	}
	before := claim.DeepCopy()
	claim.StatusConditions().SetUnknownWithReason(condition, reason, truncate(message))
	return client.IgnoreNotFound(l.writeStatus(ctx, before, claim))
}

// volumesGivenUp is the reason of VolumesDetached when volumes were no longer waited for.
const volumesGivenUp = "TerminationGracePeriodElapsed"

// noteTerminating says on the claim, in one write, that its machine is empty and going.
func (l *Lifecycle) noteTerminating(ctx context.Context, before, claim *karpv1.NodeClaim) error {
	if claim == nil {
		return nil
	}
	conditions := claim.StatusConditions()
	if c := conditions.Get(karpv1.ConditionTypeVolumesDetached); c == nil || c.Reason != volumesGivenUp {
		conditions.SetTrue(karpv1.ConditionTypeVolumesDetached)
	}
	conditions.SetTrue(karpv1.ConditionTypeDrained)
	conditions.SetTrue(karpv1.ConditionTypeInstanceTerminating)
	return client.IgnoreNotFound(l.writeStatus(ctx, before, claim))
}

// releaseNode lets a Node go for good.
func (l *Lifecycle) releaseNode(ctx context.Context, node *corev1.Node) error {
	before := node.DeepCopy()
	node.Finalizers = slices.DeleteFunc(node.Finalizers, func(f string) bool { return f == karpv1.TerminationFinalizer })
	if err := l.o.Client.Patch(ctx, node, locked(before)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release Node %s: %w", node.Name, err)
	}
	l.metrics.NodeTerminated(before, l.now())
	l.o.Log.Info("Node is gone", "node", node.Name)
	return nil
}
