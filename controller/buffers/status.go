package buffers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
)

// Reasons of the condition Provisioning, as upstream's provisioner writes them.
const (
	reasonFits     = "FitsExistingCapacity"
	reasonNew      = "RequiresNewCapacity"
	reasonNotReady = "NotReadyForProvisioning"
	reasonEmpty    = "BufferEmpty"
)

// pause is how long after a write a buffer's status is not written again: plans may be many.
const pause = time.Second

// buffer brings one buffer's placeholders and its status up to date.
func (k *Keeper) buffer(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, _ := strings.Cut(key, "/")
	at := types.NamespacedName{Namespace: namespace, Name: name}
	cached := &autoscaling.CapacityBuffer{}
	if err := k.o.Cache.Get(ctx, at, cached); err != nil {
		if !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("read CapacityBuffer %s: %w", at, err)
		}
		k.forget(at)
		return 0, nil
	}
	b := k.wrote.Newest(cached).DeepCopy()
	r, err := k.reserve(ctx, b)
	if err != nil || b.DeletionTimestamp != nil {
		return 0, err
	}
	if wait := k.wait(at); wait > 0 {
		return wait, nil
	}
	before := b.DeepCopy()
	k.ready(b, &r)
	k.provisioning(b, &r)
	if equality.Semantic.DeepEqual(before.Status, b.Status) {
		return 0, nil
	}
	if err := k.o.Client.Status().Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	k.wrote.Mutated(b.DeepCopy())
	k.mu.Lock()
	k.last[at] = k.o.Clock.Now()
	k.mu.Unlock()
	k.tell(before, b)
	return 0, nil
}

// forget drops all that is known of a buffer that is gone.
func (k *Keeper) forget(at types.NamespacedName) {
	k.o.World.SetVirtual(at, nil, 0)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.answers, at)
	delete(k.last, at)
}

func (k *Keeper) wait(at types.NamespacedName) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[at].Add(pause).Sub(k.o.Clock.Now())
}

// ready says whether it is known what the buffer asks for, and what that is.
func (k *Keeper) ready(b *autoscaling.CapacityBuffer, r *room) {
	b.Status.ProvisioningStrategy = b.Spec.ProvisioningStrategy
	if r.pod == nil {
		k.set(b, autoscaling.ReadyForProvisioningCondition, metav1.ConditionFalse, r.reason, r.problem)
		return
	}
	k.set(b, autoscaling.ReadyForProvisioningCondition, metav1.ConditionTrue, r.reason, "Pod template resolved successfully")
	b.Status.Replicas = &r.replicas
	b.Status.PodTemplateRef, b.Status.PodTemplateGeneration = nil, nil
	if b.Spec.PodTemplateRef != nil {
		b.Status.PodTemplateRef = &autoscaling.LocalObjectRef{Name: b.Spec.PodTemplateRef.Name}
		b.Status.PodTemplateGeneration = &r.generation
	}
}

// provisioning says what became of the room. It stays as it is until a plan has answered as many pods as are asked for.
func (k *Keeper) provisioning(b *autoscaling.CapacityBuffer, r *room) {
	k.mu.Lock()
	a := k.answers[client.ObjectKeyFromObject(b)]
	k.mu.Unlock()
	set := func(status metav1.ConditionStatus, reason, message string) {
		k.set(b, autoscaling.ProvisioningCondition, status, reason, message)
	}
	switch {
	case r.pod == nil:
		set(metav1.ConditionFalse, reasonNotReady, "Buffer is not ReadyForProvisioning")
	case r.replicas == 0:
		set(metav1.ConditionFalse, reasonEmpty, "Buffer has zero desired replicas: "+r.empty)
	case a.total() != int(r.replicas):
	case a.failed > 0:
		set(metav1.ConditionFalse, reasonNew, fmt.Sprintf("%d/%d virtual pods required new capacity, %d failed: %s", a.launched, r.replicas, a.failed, a.why))
	case a.launched > 0:
		set(metav1.ConditionFalse, reasonNew, fmt.Sprintf("%d/%d virtual pods required new capacity, 0 failed", a.launched, r.replicas))
	default:
		set(metav1.ConditionTrue, reasonFits, fmt.Sprintf("All %d virtual pods fit on existing capacity", r.replicas))
	}
}

func (k *Keeper) set(b *autoscaling.CapacityBuffer, kind string, status metav1.ConditionStatus, reason, message string) {
	const most = 32768 // of the CRD
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "")
	}
	apimeta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(k.o.Clock.Now()),
		Reason: reason, Message: message,
	})
}

// tell records an event for each condition that has another status or reason than before.
func (k *Keeper) tell(before, now *autoscaling.CapacityBuffer) {
	for i := range now.Status.Conditions {
		c := &now.Status.Conditions[i]
		was := apimeta.FindStatusCondition(before.Status.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason || c.Reason == reasonNotReady || c.Reason == reasonResolved {
			continue // of the last two the other condition says more
		}
		kind := corev1.EventTypeNormal
		if c.Type == autoscaling.ReadyForProvisioningCondition {
			kind = corev1.EventTypeWarning
		}
		const most = 1024 // bytes of an event's message (k8s.io/kubernetes v1.36, NoteLengthLimit)
		message := c.Message
		if len(message) > most {
			message = strings.ToValidUTF8(message[:most], "")
		}
		k.o.Recorder.Event(now, kind, c.Reason, message)
	}
}
