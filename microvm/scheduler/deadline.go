package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A kubelet's words for a pod that ran longer than its activeDeadlineSeconds (pkg/kubelet/active_deadline.go, Kubernetes 1.36).
const (
	deadlineReason  = "DeadlineExceeded"
	deadlineMessage = "Pod was active on the node longer than the specified deadline"
)

// keepDeadline stops a pod that has been active for longer than it may, and makes its status say so once nothing of it runs. It returns how long the pod
// may still be active, 0 if for ever.
func (s *Scheduler) keepDeadline(ctx context.Context, host Host, pod *corev1.Pod, status *Status) (time.Duration, error) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return 0, nil
	}
	// In whole seconds, as the API keeps it and the ends of containers.
	deadline := pod.Status.StartTime.Truncate(time.Second).Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
	over := status.Ended || status.Pod.Phase == corev1.PodFailed || status.Pod.Phase == corev1.PodSucceeded // its containers are done before its machine is
	switch left := deadline.Sub(s.o.Clock.Now()); {
	case over && endedBefore(&status.Pod, deadline):
		return 0, nil
	case left > 0:
		return left, nil
	case over:
		status.Pod.Phase, status.Pod.Reason, status.Pod.Message = corev1.PodFailed, deadlineReason, deadlineMessage
		s.o.Recorder.Event(pod, corev1.EventTypeNormal, deadlineReason, deadlineMessage)
		return 0, nil
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = *g
	}
	return 0, s.stop(ctx, host, pod, grace)
}

// endedBefore says whether a pod's last container that ran had ended before a time.
func endedBefore(s *corev1.PodStatus, t time.Time) bool {
	var last time.Time
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if e := list[i].State.Terminated; e != nil && e.FinishedAt.After(last) {
				last = e.FinishedAt.Time
			}
		}
	}
	return !last.IsZero() && last.Before(t)
}
