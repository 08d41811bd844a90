package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// refuse says on a pod, once, why it gets no microVM now: an event and PodScheduled=False, as on Fargate. The pod is looked at
// again when something changes that may have been the cause.
func (s *Scheduler) refuse(ctx context.Context, pod *corev1.Pod, r fargate.Refusal) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == r.Reason && c.Message == r.Message {
			return nil
		}
	}
	before := pod.DeepCopy()
	setCondition(&pod.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: r.Reason, Message: r.Message}, metav1.NewTime(s.o.Clock.Now()))
	if err := s.patchStatus(ctx, before, pod); err != nil {
		return err
	}
	s.o.Recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", r.Message)
	return nil
}

// patchStatus writes a pod's status where it differs; a pod that is gone needs none.
func (s *Scheduler) patchStatus(ctx context.Context, before, pod *corev1.Pod) error {
	err := s.o.Client.Status().Patch(ctx, pod, client.StrategicMergeFrom(before))
	if err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	s.wrotePods.Mutated(pod.DeepCopy())
	return nil
}

// setCondition sets a condition; its time of transition stays if its status does.
func setCondition(status *corev1.PodStatus, c corev1.PodCondition, now metav1.Time) {
	for i := range status.Conditions {
		have := &status.Conditions[i]
		if have.Type != c.Type {
			continue
		}
		if have.Status == c.Status && !have.LastTransitionTime.IsZero() {
			c.LastTransitionTime = have.LastTransitionTime
		} else {
			c.LastTransitionTime = now
		}
		*have = c
		return
	}
	c.LastTransitionTime = now
	status.Conditions = append(status.Conditions, c)
}

// tellLogging says on a pod, when it is given a microVM, whether its logs are routed.
func (s *Scheduler) tellLogging(ctx context.Context, pod *corev1.Pod, profile *v1alpha1.FargateProfile) {
	if s.o.Logging == nil {
		return
	}
	state := s.o.Logging(ctx, &profile.Spec)
	switch {
	case state.Reason == "":
	case state.Enabled:
		s.o.Recorder.Event(pod, corev1.EventTypeNormal, state.Reason, state.Message)
	default:
		s.o.Recorder.Event(pod, corev1.EventTypeWarning, state.Reason, state.Message)
	}
}

// volumes are what pods refer to, from the cache.
type volumes struct {
	ctx    context.Context
	reader client.Reader
}

func (v volumes) Claim(namespace, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	if err := v.reader.Get(v.ctx, types.NamespacedName{Namespace: namespace, Name: name}, c); err != nil {
		return nil
	}
	return c
}

func (v volumes) Volume(name string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	if err := v.reader.Get(v.ctx, types.NamespacedName{Name: name}, pv); err != nil {
		return nil
	}
	return pv
}
