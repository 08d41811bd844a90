package buffers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/nodeless/nodeless/internal/kit/events"
)

// Reasons of the condition Provisioning, as upstream's provisioner writes them.
const (
	reasonFits     = "FitsExistingCapacity"
	reasonNew      = "RequiresNewCapacity"
	reasonNotReady = "NotReadyForProvisioning"
	reasonEmpty    = "BufferEmpty"
)

// pause is the minimum time between two writes of a buffer's status: plans may be frequent.
const pause = time.Second

// reconcile brings one buffer's placeholders and its status up to date.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, _ := strings.Cut(key, "/")
	at := types.NamespacedName{Namespace: namespace, Name: name}
	cached := &autoscaling.CapacityBuffer{}
	if err := c.o.Cache.Get(ctx, at, cached); err != nil {
		if !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("read CapacityBuffer %s: %w", at, err)
		}
		c.forget(at)
		return 0, nil
	}
	b := c.wrote.Newest(cached).DeepCopy()
	r, err := c.reserve(ctx, b)
	if err != nil || b.DeletionTimestamp != nil {
		return 0, err
	}
	if wait := c.wait(at); wait > 0 {
		return wait, nil
	}
	before := b.DeepCopy()
	c.ready(b, &r)
	c.provisioning(b, &r)
	changed, err := c.wrote.PatchStatus(ctx, c.o.Client, before, b)
	if !changed {
		return 0, client.IgnoreNotFound(err)
	}
	c.mu.Lock()
	c.state[at] = bufferState{c.state[at].answer, c.o.Clock.Now()}
	c.mu.Unlock()
	c.recordEvents(before, b)
	return 0, nil
}

// forget drops the state of a deleted buffer.
func (c *Controller) forget(at types.NamespacedName) {
	c.o.Cluster.SetVirtual(at, nil, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.state, at)
}

func (c *Controller) wait(at types.NamespacedName) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state[at].written.Add(pause).Sub(c.o.Clock.Now())
}

// ready writes the condition ReadyForProvisioning and what the buffer requests.
func (c *Controller) ready(b *autoscaling.CapacityBuffer, r *demand) {
	b.Status.ProvisioningStrategy = b.Spec.ProvisioningStrategy
	if r.pod == nil {
		c.set(b, autoscaling.ReadyForProvisioningCondition, metav1.ConditionFalse, r.reason, r.problem)
		return
	}
	c.set(b, autoscaling.ReadyForProvisioningCondition, metav1.ConditionTrue, r.reason,
		"Pod template resolved successfully")
	b.Status.Replicas = &r.replicas
	b.Status.PodTemplateRef, b.Status.PodTemplateGeneration = nil, nil
	if b.Spec.PodTemplateRef != nil {
		b.Status.PodTemplateRef = &autoscaling.LocalObjectRef{Name: b.Spec.PodTemplateRef.Name}
		b.Status.PodTemplateGeneration = &r.generation
	}
}

// provisioning writes the condition Provisioning. It leaves it unchanged until a plan has answered all placeholders.
func (c *Controller) provisioning(b *autoscaling.CapacityBuffer, r *demand) {
	c.mu.Lock()
	a := c.state[client.ObjectKeyFromObject(b)].answer
	c.mu.Unlock()
	set := func(status metav1.ConditionStatus, reason, message string) {
		c.set(b, autoscaling.ProvisioningCondition, status, reason, message)
	}
	switch {
	case r.pod == nil:
		set(metav1.ConditionFalse, reasonNotReady, "Buffer is not ReadyForProvisioning")
	case r.replicas == 0:
		set(metav1.ConditionFalse, reasonEmpty, "Buffer has zero desired replicas: "+r.empty)
	case a.total() != int(r.replicas):
	case a.failed > 0:
		set(metav1.ConditionFalse, reasonNew, fmt.Sprintf("%d/%d virtual pods required new capacity, %d failed: %s",
			a.launched, r.replicas, a.failed, a.why))
	case a.launched > 0:
		set(metav1.ConditionFalse, reasonNew, fmt.Sprintf("%d/%d virtual pods required new capacity, 0 failed", a.launched,
			r.replicas))
	default:
		set(metav1.ConditionTrue, reasonFits, fmt.Sprintf("All %d virtual pods fit on existing capacity", r.replicas))
	}
}

func (c *Controller) set(b *autoscaling.CapacityBuffer, kind string, status metav1.ConditionStatus, reason,
	message string,
) {
	const maxMessage = 32768 // the CRD's limit
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	apimeta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(c.o.Clock.Now()),
		Reason: reason, Message: message,
	})
}

// recordEvents records an event for each condition whose status or reason has changed.
func (c *Controller) recordEvents(before, now *autoscaling.CapacityBuffer) {
	for _, is := range now.Status.Conditions {
		was := apimeta.FindStatusCondition(before.Status.Conditions, is.Type)
		if was != nil && was.Status == is.Status && was.Reason == is.Reason || is.Reason == reasonNotReady ||
			is.Reason == reasonResolved {
			continue // the other condition says more than these two reasons
		}
		kind := corev1.EventTypeNormal
		if is.Type == autoscaling.ReadyForProvisioningCondition {
			kind = corev1.EventTypeWarning
		}
		c.o.Recorder.Event(now, kind, is.Reason, events.Message(is.Message))
	}
}
