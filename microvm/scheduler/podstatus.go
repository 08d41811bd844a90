package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/microvm"
)

// podStatus acts as the kubelet of bound pods: it writes the statuses that their hosts report, and terminates the
// pods.
type podStatus struct {
	o     *Options
	pods  *records
	hosts *hosts
	api   *api
	nodes *nodes
}

// stopSlack is how long beyond its grace period a pod may take to end before its microVM is removed.
const stopSlack = 30 * time.Second

// report writes the status that the host of a bound pod reports, and stops the pod at its active deadline. It returns
// the time left until the deadline, or until the status may be written; 0 if there is none.
func (s *podStatus) report(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if wait := s.pods.pace(pod.UID, s.o.Clock.Now()); wait > 0 {
		return wait, nil
	}
	if done, err := s.reject(ctx, pod); done || err != nil {
		return 0, err
	}
	host := s.hosts.reserved(s.pods.get(pod.UID))
	if host == nil {
		return 0, nil // hostMonitor decides
	}
	if err := s.nodes.updateKubelet(ctx, pod, host.Describe()); err != nil || terminal(pod) {
		return 0, err
	}
	if follower, ok := host.(microvm.Follower); ok {
		if err := follower.Follow(ctx, vmID(pod.UID), pod); err != nil {
			return 0, fmt.Errorf("update the host of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	status, err := host.Status(ctx, vmID(pod.UID))
	switch {
	case errors.Is(err, microvm.ErrUnknown):
		status = microvm.Status{Pod: corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "MicroVMLost", Message: "The microVM of the pod is gone from its host",
			ContainerStatuses: pod.Status.ContainerStatuses,
		}}
	case err != nil:
		return 0, fmt.Errorf("status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	left, err := s.enforceDeadline(ctx, host, pod, &status)
	return left, errors.Join(err, s.write(ctx, pod, status.Pod))
}

// reject fails a pod that was bound to the Node of another pod's microVM, in a kubelet's words (pkg/kubelet,
// rejectPod and lifecycle, Kubernetes 1.36).
func (s *podStatus) reject(ctx context.Context, pod *corev1.Pod) (done bool, err error) {
	node := &corev1.Node{}
	if err := s.o.Cache.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if uid := podUID(node); uid == "" || uid == pod.UID {
		return false, nil
	}
	if terminal(pod) {
		return true, nil
	}
	reason, message := "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"
	if pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux {
		reason, message = "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
	}
	s.o.Recorder.Event(pod, corev1.EventTypeWarning, reason, message)
	before := pod.DeepCopy()
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reason, "Pod was rejected: "+message
	return true, s.api.patchPod(ctx, before, pod)
}

// write updates a pod's status to what its host reports, if they differ.
func (s *podStatus) write(ctx context.Context, pod *corev1.Pod, reported corev1.PodStatus) error {
	before := pod.DeepCopy()
	now := metav1.NewTime(s.o.Clock.Now())
	to := &pod.Status
	to.Phase, to.Reason, to.Message = reported.Phase, reported.Reason, reported.Message
	to.InitContainerStatuses, to.ContainerStatuses = reported.InitContainerStatuses, reported.ContainerStatuses
	to.EphemeralContainerStatuses = reported.EphemeralContainerStatuses
	to.ObservedGeneration = cmp.Or(reported.ObservedGeneration, pod.Generation)
	for _, c := range reported.Conditions {
		if c.Type != corev1.PodScheduled {
			setCondition(pod, c, now)
		}
	}
	to.Conditions = slices.DeleteFunc(to.Conditions, func(c corev1.PodCondition) bool { // a finished resize
		return (c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress) &&
			!slices.ContainsFunc(reported.Conditions, func(r corev1.PodCondition) bool { return r.Type == c.Type })
	})
	if to.StartTime == nil {
		to.StartTime = &now
	}
	if ip := s.nodes.address(ctx, pod); to.PodIP == "" && ip.IsValid() {
		to.PodIP, to.PodIPs = ip.String(), []corev1.PodIP{{IP: ip.String()}}
		to.HostIP, to.HostIPs = ip.String(), []corev1.HostIP{{IP: ip.String()}} // on Fargate they are the same
	}
	if equality.Semantic.DeepEqual(before.Status, pod.Status) {
		return nil
	}
	return s.api.patchPod(ctx, before, pod)
}

// end stops a pod that is being deleted, and removes it from the API once none of its containers run. It goes on if the
// API server refuses the pod's status, which the guest decides.
func (s *podStatus) end(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	id, host := vmID(pod.UID), s.hosts.reserved(s.pods.get(pod.UID))
	if pod.Spec.NodeName == "" || host == nil {
		return 0, s.api.deletePod(ctx, pod)
	}
	status, err := host.Status(ctx, id)
	if errors.Is(err, microvm.ErrUnknown) {
		return 0, s.api.deletePod(ctx, pod)
	}
	if err != nil {
		return 0, fmt.Errorf("status of pod %s/%s, which ends: %w", pod.Namespace, pod.Name, err)
	}
	now := s.o.Clock.Now()
	var written error
	wait := s.pods.pace(pod.UID, now)
	if wait == 0 || status.Ended {
		written = s.write(ctx, pod, status.Pod)
	}
	// DeletionTimestamp is when the grace period ends.
	left := pod.DeletionTimestamp.Add(stopSlack).Sub(now)
	switch {
	case status.Ended && left > 0 && written != nil && !apierrors.IsInvalid(written):
		return 0, written // another attempt may write how the pod ended
	case status.Ended:
		return 0, errors.Join(written, s.api.deletePod(ctx, pod))
	case left > 0:
		return cmp.Or(wait, left), errors.Join(written,
			s.stop(ctx, host, pod, ptr.Deref(pod.DeletionGracePeriodSeconds, 0)))
	}
	s.o.Log.Warn("removing a microVM that did not end its pod in time", "pod", pod.Namespace+"/"+pod.Name)
	if err := host.Remove(ctx, id); err != nil && !errors.Is(err, microvm.ErrUnknown) {
		return 0, fmt.Errorf("remove the microVM of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, errors.Join(written, s.api.deletePod(ctx, pod))
}

// stop tells a host to stop a pod: once, and again if the grace period is shortened.
func (s *podStatus) stop(ctx context.Context, host microvm.Host, pod *corev1.Pod, grace int64) error {
	if told := s.pods.get(pod.UID).stopGrace; told != nil && *told <= grace {
		return nil
	}
	if err := host.Stop(ctx, vmID(pod.UID), grace); err != nil && !errors.Is(err, microvm.ErrUnknown) {
		return fmt.Errorf("stop pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.pods.update(pod.UID, func(p *record) { p.stopGrace = &grace })
	return nil
}

// The kubelet's words for a pod that has exceeded its activeDeadlineSeconds (pkg/kubelet/active_deadline.go,
// Kubernetes 1.36).
const (
	deadlineReason  = "DeadlineExceeded"
	deadlineMessage = "Pod was active on the node longer than the specified deadline"
)

// enforceDeadline stops a pod that has exceeded its active deadline, and puts that into its status once none of its
// containers run. It returns how long the pod may still be active, 0 if it has no deadline.
func (s *podStatus) enforceDeadline(
	ctx context.Context, host microvm.Host, pod *corev1.Pod, status *microvm.Status,
) (time.Duration, error) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return 0, nil
	}
	// Use whole seconds, since the API stores start times and the end times of containers in whole seconds.
	allowed := time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second
	deadline := pod.Status.StartTime.Truncate(time.Second).Add(allowed)
	// The containers end before the microVM does.
	done := status.Ended || status.Pod.Phase == corev1.PodFailed || status.Pod.Phase == corev1.PodSucceeded
	left := deadline.Sub(s.o.Clock.Now())
	switch {
	case done && endedBefore(&status.Pod, deadline):
		return 0, nil
	case left > 0:
		return left, nil
	case done:
		status.Pod.Phase, status.Pod.Reason, status.Pod.Message = corev1.PodFailed, deadlineReason, deadlineMessage
		s.o.Recorder.Event(pod, corev1.EventTypeNormal, deadlineReason, deadlineMessage)
		return 0, nil
	}
	return 0, s.stop(ctx, host, pod, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds,
		corev1.DefaultTerminationGracePeriodSeconds))
}

// endedBefore reports whether the last of a pod's terminated containers ended before t.
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
