package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// writes retries a write immediately after a conflict, since others write to the same objects all the time.
var writes = wait.Backoff{Steps: 4}

// mark makes every remaining victim carry the command: first the annotation, which identifies all the rest, then the
// taint, then the condition. It leaves existing marks alone.
func (a *Applier) mark(ctx context.Context, c *activeCommand) error {
	if len(c.Replacements) == 0 && c.Launches > 0 {
		c.Replacements = slices.Sorted(maps.Keys(c.replacements))
	}
	for _, claim := range a.remaining(c) {
		claim, err := a.annotate(ctx, claim, c.Command)
		if err != nil {
			return err
		}
		c.marked[claim.UID] = true
		if err := a.taint(ctx, claim, true); err != nil {
			return err
		}
		method := string(c.Method)
		err = a.setConditions(ctx, claim,
			func(s status.ConditionSet) { s.SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, method, method) })
		if err != nil {
			return err
		}
	}
	return nil
}

// annotate writes the command on a victim, unless the victim has changed in a way that the command must not ignore.
func (a *Applier) annotate(ctx context.Context, claim *karpv1.NodeClaim,
	c translate.Command,
) (*karpv1.NodeClaim, error) {
	text := c.Text()
	return a.setMetadata(ctx, claim, func(claim *karpv1.NodeClaim) error {
		other, marked, err := translate.CommandOf(claim)
		switch {
		case claim.DeletionTimestamp != nil:
			return fmt.Errorf("NodeClaim %s: %w: it is being deleted", claim.Name, errChanged)
		case marked && (err != nil || other.ID != c.ID):
			return fmt.Errorf("NodeClaim %s: %w: it is part of another command", claim.Name, errChanged)
		case !marked && claim.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true":
			return fmt.Errorf("NodeClaim %s: %w: it may not be disrupted any more", claim.Name, errChanged)
		case !marked:
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, translate.AnnotationCommand, text)
		}
		return nil
	})
}

// setMetadata writes the changes that edit makes to a claim's metadata, and returns the claim as written.
func (a *Applier) setMetadata(ctx context.Context, claim *karpv1.NodeClaim,
	edit func(*karpv1.NodeClaim) error,
) (*karpv1.NodeClaim, error) {
	patch := func(o client.Object, p client.Patch) error { return a.o.Client.Patch(ctx, o, p) }
	now, err := a.write(ctx, claim, patch, edit)
	if err == nil && now == nil {
		err = fmt.Errorf("annotate: %w: the NodeClaim is gone", errChanged)
	}
	return now, err
}

// setConditions writes the changes that edit makes to a claim's conditions, unless the claim is gone.
func (a *Applier) setConditions(ctx context.Context, claim *karpv1.NodeClaim, edit func(status.ConditionSet)) error {
	patch := func(o client.Object, p client.Patch) error { return a.o.Client.Status().Patch(ctx, o, p) }
	_, err := a.write(ctx, claim, patch, func(claim *karpv1.NodeClaim) error {
		edit(claim.StatusConditions(status.WithObservedOnly()))
		return nil
	})
	return err
}

// write patches a claim with the changes that edit makes, and reads the claim again after each conflict. It returns
// the claim as written, nil if it is gone.
func (a *Applier) write(ctx context.Context, claim *karpv1.NodeClaim, patch func(client.Object, client.Patch) error,
	edit func(*karpv1.NodeClaim) error,
) (*karpv1.NodeClaim, error) {
	err := retry.RetryOnConflict(writes, func() error {
		changed := claim.DeepCopy()
		if err := edit(changed); err != nil || equality.Semantic.DeepEqual(changed, claim) {
			return err
		}
		switch err := patch(changed, locked(claim)); {
		case err == nil:
			a.o.State.ObserveClaim(changed)
			claim = changed
			return nil
		case apierrors.IsConflict(err):
			if claim = a.refresh(ctx, claim); claim == nil {
				return nil
			}
			return err
		default:
			return fmt.Errorf("update NodeClaim %s: %w", claim.Name, err)
		}
	})
	return claim, err
}

// taint adds the disrupted taint to the Node of a claim, or removes it.
func (a *Applier) taint(ctx context.Context, claim *karpv1.NodeClaim, on bool) error {
	node := a.o.State.Node(claim.Status.NodeName)
	if node == nil {
		return nil
	}
	err := retry.RetryOnConflict(writes, func() error {
		if node.DeletionTimestamp != nil || isTainted(node) == on {
			return nil
		}
		changed := node.DeepCopy()
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isDisrupted)
		if on {
			changed.Spec.Taints = append(changed.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		}
		err := a.o.Client.Patch(ctx, changed, locked(node))
		if apierrors.IsConflict(err) {
			fresh := &corev1.Node{}
			if err := a.o.Client.Get(ctx, client.ObjectKeyFromObject(node), fresh); err != nil {
				return err
			}
			changed, node = fresh, fresh
		} else if err != nil {
			return err
		}
		a.o.State.Update(changed)
		return err
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taint Node %s: %w", node.Name, err)
	}
	return nil
}

// refresh reads a claim again. It returns nil if the claim is gone or another one has its name.
func (a *Applier) refresh(ctx context.Context, claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	fresh := &karpv1.NodeClaim{}
	err := a.o.Client.Get(ctx, client.ObjectKeyFromObject(claim), fresh)
	switch {
	case apierrors.IsNotFound(err):
		a.o.State.ForgetClaim(claim)
		return nil
	case err != nil:
		return claim // the next write reports what is wrong
	}
	a.o.State.ObserveClaim(fresh)
	if fresh.UID != claim.UID {
		return nil
	}
	return fresh
}

// locked returns a merge patch that fails if the object has changed since it was read.
func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
}

func isDisrupted(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey }

func isTainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isDisrupted) }
