package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stopSlack is how much longer than its grace a microVM may take to end its pod, before it is taken away as it is.
const stopSlack = 30 * time.Second

// report writes what the host says of a bound pod, and ends one whose time is over. It returns when that will be, 0 for never.
func (s *Scheduler) report(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	host, ok := s.hostOf(pod)
	if !ok {
		return 0, nil // hostLost decides
	}
	if err := s.keepKubelet(ctx, pod, host.Describe()); err != nil || terminal(pod) {
		return 0, err
	}
	if follower, ok := host.(Follower); ok {
		if err := follower.Follow(ctx, machineID(pod.UID), pod); err != nil {
			return 0, fmt.Errorf("tell the host of pod %s/%s what is new: %w", pod.Namespace, pod.Name, err)
		}
	}
	status, err := host.Status(ctx, machineID(pod.UID))
	switch {
	case errors.Is(err, ErrUnknown):
		status = Status{Pod: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "MicroVMLost", Message: "The microVM of the pod is gone from its host"}}
		status.Pod.ContainerStatuses = pod.Status.ContainerStatuses
	case err != nil:
		return 0, fmt.Errorf("status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	left, err := s.keepDeadline(ctx, host, pod, &status)
	return left, errors.Join(err, s.writeStatus(ctx, pod, status.Pod))
}

// hostOf is the host that a pod was given to; false if that is not registered.
func (s *Scheduler) hostOf(pod *corev1.Pod) (Host, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.hosts[s.held[pod.UID].host]
	return h.Host, ok
}

// writeStatus brings a pod's status to what its host says, if that is news.
func (s *Scheduler) writeStatus(ctx context.Context, pod *corev1.Pod, said corev1.PodStatus) error {
	before := pod.DeepCopy()
	now := metav1.NewTime(s.o.Clock.Now())
	to := &pod.Status
	to.Phase, to.Reason, to.Message = said.Phase, said.Reason, said.Message
	to.InitContainerStatuses, to.ContainerStatuses, to.EphemeralContainerStatuses = said.InitContainerStatuses, said.ContainerStatuses, said.EphemeralContainerStatuses
	to.ObservedGeneration = pod.Generation
	for _, c := range said.Conditions {
		if c.Type != corev1.PodScheduled {
			setCondition(to, c, now)
		}
	}
	if to.StartTime == nil {
		to.StartTime = &now
	}
	if ip := s.address(ctx, pod); to.PodIP == "" && ip.IsValid() {
		to.PodIP, to.PodIPs = ip.String(), []corev1.PodIP{{IP: ip.String()}}
		to.HostIP, to.HostIPs = ip.String(), []corev1.HostIP{{IP: ip.String()}} // on Fargate they are the same
	}
	if equality.Semantic.DeepEqual(before.Status, pod.Status) {
		return nil
	}
	return s.patchStatus(ctx, before, pod)
}

// end takes a pod that is being deleted off its microVM, and lets it go when nothing of it runs any more.
func (s *Scheduler) end(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	id := machineID(pod.UID)
	host, ok := s.hostOf(pod)
	if pod.Spec.NodeName == "" || !ok {
		return 0, s.letGo(ctx, pod)
	}
	grace := int64(0)
	if pod.DeletionGracePeriodSeconds != nil {
		grace = *pod.DeletionGracePeriodSeconds
	}
	status, err := host.Status(ctx, id)
	if errors.Is(err, ErrUnknown) {
		return 0, s.letGo(ctx, pod)
	}
	if err != nil {
		return 0, fmt.Errorf("status of pod %s/%s, which ends: %w", pod.Namespace, pod.Name, err)
	}
	if err := s.writeStatus(ctx, pod, status.Pod); err != nil {
		return 0, err
	}
	if status.Ended {
		return 0, s.letGo(ctx, pod)
	}
	// DeletionTimestamp is when the grace is over.
	if left := pod.DeletionTimestamp.Add(stopSlack).Sub(s.o.Clock.Now()); left > 0 {
		return left, s.stop(ctx, host, pod, grace)
	}
	s.o.Log.Warn("a microVM did not end its pod in time and is taken away", "pod", pod.Namespace+"/"+pod.Name)
	if err := host.Remove(ctx, id); err != nil && !errors.Is(err, ErrUnknown) {
		return 0, fmt.Errorf("take away the microVM of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, s.letGo(ctx, pod)
}

// stop tells a host once that a pod ends, and again if it is to end sooner.
func (s *Scheduler) stop(ctx context.Context, host Host, pod *corev1.Pod, grace int64) error {
	s.mu.Lock()
	told, stopping := s.stopped[pod.UID]
	s.mu.Unlock()
	if stopping && told <= grace {
		return nil
	}
	if err := host.Stop(ctx, machineID(pod.UID), grace); err != nil && !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("stop pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.mu.Lock()
	s.stopped[pod.UID] = grace
	s.mu.Unlock()
	return nil
}

// letGo removes a pod from the API, as a kubelet does when nothing of it is left.
func (s *Scheduler) letGo(ctx context.Context, pod *corev1.Pod) error {
	err := s.o.Client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("let pod %s/%s go: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
