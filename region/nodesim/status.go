package nodesim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// runningStatus returns the status that a kubelet reports once all containers run.
func runningStatus(pod *corev1.Pod, hostIP, ip string, now metav1.Time) corev1.PodStatus {
	st := *pod.Status.DeepCopy()
	st.Phase = corev1.PodRunning
	st.Reason, st.Message = "", ""
	st.HostIP, st.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	st.PodIP, st.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	st.StartTime = &now
	st.ContainerStatuses, st.InitContainerStatuses = nil, nil
	for _, c := range pod.Spec.InitContainers {
		cs := containerStatus(pod, c, now)
		if ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			cs.State = ended(now, now)
			cs.Started = ptr.To(false)
		}
		st.InitContainerStatuses = append(st.InitContainerStatuses, cs)
	}
	for _, c := range pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, containerStatus(pod, c, now))
	}
	for _, t := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized,
		corev1.ContainersReady,
	} {
		st.Conditions = setCondition(st.Conditions, t, corev1.ConditionTrue, "", now)
	}
	st.Conditions = setReady(pod, st.Conditions, now)
	return st
}

// waitingStatus returns the status that a kubelet reports for a pod without a sandbox.
func waitingStatus(pod *corev1.Pod, hostIP string, now metav1.Time) corev1.PodStatus {
	st := *pod.Status.DeepCopy()
	st.HostIP, st.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	st.StartTime = &now
	for _, c := range pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		})
	}
	st.Conditions = setCondition(st.Conditions, corev1.PodReadyToStartContainers, corev1.ConditionFalse, "", now)
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		st.Conditions = setCondition(st.Conditions, t, corev1.ConditionFalse, "ContainersNotReady", now)
	}
	return st
}

// setReady makes a pod Ready, or not Ready while one of its readiness gates is closed.
func setReady(pod *corev1.Pod, conditions []corev1.PodCondition, now metav1.Time) []corev1.PodCondition {
	open := map[corev1.PodConditionType]bool{}
	for _, c := range conditions {
		open[c.Type] = c.Status == corev1.ConditionTrue
	}
	for _, g := range pod.Spec.ReadinessGates {
		if !open[g.ConditionType] {
			return setCondition(conditions, corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady", now)
		}
	}
	return setCondition(conditions, corev1.PodReady, corev1.ConditionTrue, "", now)
}

func containerStatus(pod *corev1.Pod, c corev1.Container, now metav1.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image,
		ContainerID: fmt.Sprintf("simulated://%s/%s", pod.UID, c.Name),
		Ready:       true, Started: ptr.To(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}
}

func ended(started, now metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: started, FinishedAt: now,
	}}
}

// endedStatus returns the status that a kubelet reports after all containers have succeeded.
func endedStatus(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	st := *pod.Status.DeepCopy()
	st.Phase = corev1.PodSucceeded
	for i := range st.ContainerStatuses {
		cs := &st.ContainerStatuses[i]
		cs.Ready, cs.Started = false, ptr.To(false)
		cs.State = ended(ptr.Deref(st.StartTime, now), now)
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		st.Conditions = setCondition(st.Conditions, t, corev1.ConditionFalse, "PodCompleted", now)
	}
	return st
}

func setCondition(cs []corev1.PodCondition, t corev1.PodConditionType, v corev1.ConditionStatus, reason string,
	now metav1.Time,
) []corev1.PodCondition {
	for i := range cs {
		if cs[i].Type != t {
			continue
		}
		if cs[i].Status != v {
			cs[i].LastTransitionTime = now
		}
		cs[i].Status, cs[i].Reason, cs[i].Message = v, reason, ""
		return cs
	}
	return append(cs, corev1.PodCondition{Type: t, Status: v, Reason: reason, LastTransitionTime: now})
}
