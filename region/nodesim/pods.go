package nodesim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// AnnotationRunFor is how long the simulated process of a pod that ends on its own runs, as a Go duration.
const AnnotationRunFor = "nodeless.sh/run-for"

const (
	defaultRun   = 2 * time.Second
	addressRetry = 5 * time.Second
	forever      = 100 * 365 * 24 * time.Hour
)

// reconcilePod takes one step with a pod: start, finish or remove it.
func (s *Simulator) reconcilePod(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := s.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil // its address was released on deletion
	}
	if err != nil {
		return err
	}
	m := s.instance(pod.Spec.NodeName)
	switch {
	case m == nil:
		return nil // not ours, or not booted: the boot queues the pod again
	case pod.DeletionTimestamp != nil:
		return s.stopPod(ctx, key, pod)
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		return s.startPod(ctx, key, pod, m)
	case pod.Status.Phase == corev1.PodUnknown:
		return nil
	case pod.Status.Phase == corev1.PodRunning:
		switch {
		case isCNI(pod):
			s.startCNI(ctx, pod, m) // also when the simulator has just started
		case isDaemon(pod, proxyApp):
			s.enqueuePods(m.Name, func(p *corev1.Pod) bool { return isCNI(p) && p.Status.Phase == corev1.PodPending })
		}
		if done, err := s.updateReady(ctx, pod); done {
			return err
		}
		return s.finishPod(ctx, key, pod)
	}
	s.podEnded(pod)
	return nil
}

// podEnded releases what a pod held, after its processes have ended.
func (s *Simulator) podEnded(pod *corev1.Pod) {
	if isCNI(pod) {
		s.stopCNI(pod)
	}
	s.o.Instances.ReleasePodIP(string(pod.UID))
}

func (s *Simulator) startPod(ctx context.Context, key string, pod *corev1.Pod, m *Instance) error {
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) != m.os() {
		return s.rejectPod(ctx, pod, m, "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
	}
	if isCNI(pod) && !m.fake && s.cniOf(m.Name) == cniNone {
		node, err := s.nodes.Get(m.Name)
		if err != nil {
			return err // the watch has yet to deliver it
		}
		if s.daemons.lackProxy(node, s.Pods(m.Name)) {
			s.requeueAfter("pod/"+key, addressRetry) // kube-proxy's start queues the pod, but a user may delete the DaemonSet
			return nil
		}
	}
	ip := m.IP
	if !pod.Spec.HostNetwork && !m.fake {
		if node, err := s.nodes.Get(m.Name); err == nil && s.awaitsCNI(m, node) {
			s.requeueAfter("pod/"+key, addressRetry) // startCNI queues the pod, but a user may delete the DaemonSet
			return nil
		}
		if s.cniOf(m.Name) == cniDown {
			s.requeueAfter("pod/"+key, addressRetry)
			return s.waitForAddress(ctx, pod, m, messageNoCNI)
		}
		if m.Windows != "" && !v1beta1.AsksForAddress(pod) {
			s.requeueAfter("pod/"+key, addressRetry)
			return s.waitForAddress(ctx, pod, m, fmt.Sprintf(messageNoRequest, pod.Namespace, pod.Name))
		}
		s.retryPodNetwork(ctx, m)
		assigned, with, err := s.controller.assignAddress(ctx, pod, m)
		if err != nil {
			s.o.Log.Debug("pod gets no address", "pod", key, "node", m.Name, "error", err)
			s.requeueAfter("pod/"+key, addressRetry)
			return s.waitForAddress(ctx, pod, m, messageNoAddress)
		}
		ip, pod = assigned, with
	}
	if isCNI(pod) {
		s.startCNI(ctx, pod, m) // before the pod is ready: a ready aws-node means that addresses are available
	}
	pod = pod.DeepCopy()
	now := metav1.NewTime(s.o.Clock.Now())
	pod.Status = runningStatus(pod, m.IP.String(), ip.String(), now)
	if isUnhealthy(pod) {
		pod.Status = unhealthyStatus(pod.Status, now)
	}
	if err := s.updateStatus(ctx, pod); err != nil {
		return err
	}
	if d, ends := runTime(pod); ends {
		s.requeueAfter("pod/"+key, d)
	}
	return nil
}

// rejectPod fails a pod that may not run on its node, with the kubelet's wording (pkg/kubelet, rejectPod, Kubernetes
// 1.36).
func (s *Simulator) rejectPod(ctx context.Context, pod *corev1.Pod, m *Instance, reason, message string) error {
	s.event(m.Name, pod, corev1.EventTypeWarning, reason, "%s", message)
	pod = pod.DeepCopy()
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reason, "Pod was rejected: "+message
	return s.updateStatus(ctx, pod)
}

// markedNotReady reports whether kube-controller-manager has set a pod's Ready condition to false, as it does with all
// pods of a node whose kubelet seems to be dead.
func markedNotReady(pod *corev1.Pod) bool {
	ready, containers := conditions.OfPod(pod, corev1.PodReady), conditions.OfPod(pod, corev1.ContainersReady)
	return ready != nil && ready.Status == corev1.ConditionFalse && ready.Reason == "" &&
		containers != nil && containers.Status == corev1.ConditionTrue
}

// updateReady updates the Ready condition of a running pod after its readiness gates changed, and once the node is
// ready again; done reports whether it attempted a write.
func (s *Simulator) updateReady(ctx context.Context, pod *corev1.Pod) (done bool, err error) {
	if len(pod.Spec.ReadinessGates) == 0 {
		if node, _ := s.nodes.Get(pod.Spec.NodeName); node == nil || !conditions.NodeReady(node) || !markedNotReady(pod) {
			return false, nil
		}
	}
	after := pod.DeepCopy()
	after.Status.Conditions = setReady(pod, after.Status.Conditions, metav1.NewTime(s.o.Clock.Now()))
	if conditions.PodReady(after) == conditions.PodReady(pod) {
		return false, nil
	}
	return true, s.updateStatus(ctx, after)
}

// waitForAddress reports why a pod does not start, as EKS does: with an event, and with its containers waiting.
func (s *Simulator) waitForAddress(ctx context.Context, pod *corev1.Pod, m *Instance, message string) error {
	s.event(m.Name, pod, corev1.EventTypeWarning, reasonNoSandbox, message, sandboxOf(pod))
	if len(pod.Status.ContainerStatuses) > 0 {
		return nil // already reported as waiting
	}
	pod = pod.DeepCopy()
	pod.Status = waitingStatus(pod, m.IP.String(), metav1.NewTime(s.o.Clock.Now()))
	return s.updateStatus(ctx, pod)
}

// finishPod ends a pod whose process ends on its own, once its time has passed.
func (s *Simulator) finishPod(ctx context.Context, key string, pod *corev1.Pod) error {
	d, ends := runTime(pod)
	if !ends || pod.Status.StartTime == nil {
		return nil
	}
	if left := pod.Status.StartTime.Add(d).Sub(s.o.Clock.Now()); left > 0 {
		s.requeueAfter("pod/"+key, left)
		return nil
	}
	pod = pod.DeepCopy()
	pod.Status = endedStatus(pod, metav1.NewTime(s.o.Clock.Now()))
	if err := s.updateStatus(ctx, pod); err != nil {
		return err
	}
	s.podEnded(pod)
	return nil
}

// stopPod waits for the process of a deleted pod to end, then deletes the object as a kubelet does.
func (s *Simulator) stopPod(ctx context.Context, key string, pod *corev1.Pod) error {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	asked := pod.DeletionTimestamp.Add(-grace)
	if left := asked.Add(max(min(grace, stopTime(pod)), stopDelay(pod))).Sub(s.o.Clock.Now()); left > 0 {
		s.requeueAfter("pod/"+key, left)
		return nil
	}
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // gone, or a different pod of that name
	}
	if err == nil {
		s.podEnded(pod)
	}
	return err
}

// updateStatus writes a pod's status. If the pod has changed or is gone, the watch queues it again.
func (s *Simulator) updateStatus(ctx context.Context, pod *corev1.Pod) error {
	_, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// runTime returns how long a pod runs, if it ends on its own.
func runTime(pod *corev1.Pod) (time.Duration, bool) {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == "" {
		return 0, false
	}
	d := defaultRun
	if n, ok := sleepIn(pod.Spec.Containers); ok {
		d = n
	}
	if v, err := time.ParseDuration(pod.Annotations[AnnotationRunFor]); err == nil && v >= 0 {
		d = v
	}
	return d, true
}

// sleepIn returns the longest `sleep N` among the containers' commands.
func sleepIn(containers []corev1.Container) (longest time.Duration, found bool) {
	for _, c := range containers {
		words := strings.FieldsFunc(strings.Join(append(append([]string{}, c.Command...), c.Args...), " "),
			func(r rune) bool { return r == ' ' || r == ';' || r == '&' || r == '\n' })
		for i := 0; i+1 < len(words); i++ {
			if strings.TrimPrefix(words[i], "/bin/") != "sleep" {
				continue
			}
			if words[i+1] == "infinity" {
				return forever, true
			}
			if n, err := strconv.ParseFloat(strings.TrimSuffix(words[i+1], "s"), 64); err == nil && n >= 0 && n < 1e6 {
				longest, found = max(longest, time.Duration(n*float64(time.Second))), true
			}
		}
	}
	return longest, found
}

// stopTime returns how long a pod's processes take to end: as long as their longest preStop sleep.
func stopTime(pod *corev1.Pod) time.Duration {
	var d time.Duration
	for _, c := range pod.Spec.Containers {
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		if p := c.Lifecycle.PreStop; p.Sleep != nil {
			d = max(d, time.Duration(p.Sleep.Seconds)*time.Second)
		} else if p.Exec != nil {
			n, _ := sleepIn([]corev1.Container{{Command: p.Exec.Command}})
			d = max(d, n)
		}
	}
	return d
}
