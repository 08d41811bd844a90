package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// tries is how often a write is made again after a conflict: others write to the same objects all the time.
const tries = 4

// mark makes every victim that is not going yet carry the command: the annotation first, by which all the rest is
// found, then the taint, then the condition. What is there already is left alone.
func (a *Applier) mark(ctx context.Context, u *underway) error {
	if len(u.Command.Replacements) == 0 && u.Launches > 0 {
		for name := range u.replacements {
			u.Command.Replacements = append(u.Command.Replacements, name)
		}
		slices.Sort(u.Command.Replacements)
	}
	for _, claim := range a.left(u) {
		claim, err := a.annotate(ctx, claim, u.Command)
		if err != nil {
			return err
		}
		if err := a.taint(ctx, claim, true); err != nil {
			return err
		}
		why := string(u.Method)
		err = a.condition(ctx, claim,
			func(c status.ConditionSet) { c.SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, why, why) })
		if err != nil {
			return err
		}
	}
	return nil
}

// annotate writes the command on a victim, unless something has happened to it that a command must not ignore.
func (a *Applier) annotate(ctx context.Context, claim *karpv1.NodeClaim,
	c translate.Command,
) (*karpv1.NodeClaim, error) {
	text := c.Text()
	return a.change(ctx, claim, func(claim *karpv1.NodeClaim) error {
		other, marked, err := translate.CommandOf(claim)
		switch {
		case claim.DeletionTimestamp != nil:
			return fmt.Errorf("NodeClaim %s: %w: it is being deleted", claim.Name, errChanged)
		case marked && (err != nil || other.ID != c.ID):
			return fmt.Errorf("NodeClaim %s: %w: it is part of another command", claim.Name, errChanged)
		case !marked && claim.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true":
			return fmt.Errorf("NodeClaim %s: %w: it may not be disrupted any more", claim.Name, errChanged)
		case marked:
			return nil
		}
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[translate.AnnotationCommand] = text
		return nil
	})
}

// change writes metadata of a claim if it has to be, as it is read anew after each conflict.
func (a *Applier) change(ctx context.Context, claim *karpv1.NodeClaim,
	edit func(*karpv1.NodeClaim) error,
) (*karpv1.NodeClaim, error) {
	for range tries {
		changed := claim.DeepCopy()
		if err := edit(changed); err != nil {
			return claim, err
		}
		if equal(changed.ObjectMeta, claim.ObjectMeta) {
			return claim, nil
		}
		err := a.o.Client.Patch(ctx, changed, locked(claim))
		if err == nil {
			a.o.State.ObserveClaim(changed)
			return changed, nil
		}
		if !apierrors.IsConflict(err) {
			return claim, fmt.Errorf("annotate NodeClaim %s: %w", claim.Name, err)
		}
		if claim = a.refresh(ctx, claim); claim == nil {
			return nil, fmt.Errorf("annotate: %w: the NodeClaim is gone", errChanged)
		}
	}
	return claim, fmt.Errorf("annotate NodeClaim %s: others write to it too often", claim.Name)
}

// condition writes a claim's conditions if they have to be.
func (a *Applier) condition(ctx context.Context, claim *karpv1.NodeClaim, edit func(status.ConditionSet)) error {
	for range tries {
		changed := claim.DeepCopy()
		set := changed.StatusConditions(status.WithObservedOnly())
		edit(set)
		if equal(changed.Status, claim.Status) {
			return nil
		}
		err := a.o.Client.Status().Patch(ctx, changed, locked(claim))
		if err == nil {
			a.o.State.ObserveClaim(changed)
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("update status of NodeClaim %s: %w", claim.Name, client.IgnoreNotFound(err))
		}
		if claim = a.refresh(ctx, claim); claim == nil {
			return nil
		}
	}
	return fmt.Errorf("update status of NodeClaim %s: others write to it too often", claim.Name)
}

// taint puts the disrupted taint on the Node of a claim, or takes it off.
func (a *Applier) taint(ctx context.Context, claim *karpv1.NodeClaim, on bool) error {
	node := a.o.State.Node(claim.Status.NodeName)
	for range tries {
		if node == nil || node.DeletionTimestamp != nil || hasTaint(node) == on {
			return nil
		}
		changed := node.DeepCopy()
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isDisrupted)
		if on {
			changed.Spec.Taints = append(changed.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		}
		err := a.o.Client.Patch(ctx, changed, locked(node))
		switch {
		case err == nil:
			a.o.State.Update(changed)
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("taint Node %s: %w", node.Name, err)
		}
		fresh := &corev1.Node{}
		if err := a.o.Client.Get(ctx, client.ObjectKeyFromObject(node), fresh); err != nil {
			return client.IgnoreNotFound(err)
		}
		a.o.State.Update(fresh)
		node = fresh
	}
	return fmt.Errorf("taint Node %s: others write to it too often", node.Name)
}

// refresh reads a claim anew; nil if it is gone, or another one has its name.
func (a *Applier) refresh(ctx context.Context, claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	fresh := &karpv1.NodeClaim{}
	err := a.o.Client.Get(ctx, client.ObjectKeyFromObject(claim), fresh)
	switch {
	case apierrors.IsNotFound(err):
		a.o.State.ForgetClaim(claim)
		return nil
	case err != nil:
		return claim // the write will say what is wrong
	}
	a.o.State.ObserveClaim(fresh)
	if fresh.UID != claim.UID {
		return nil
	}
	return fresh
}

// locked is a merge patch that fails if the object is no longer as it was read.
func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
}

func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

func isDisrupted(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey }

func hasTaint(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isDisrupted) }
