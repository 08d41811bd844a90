package translate

import (
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/engine/model"
)

// Forever is the end of what has no end.
var Forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Pod is what matters of a pod besides its shape. It is comparable: equal Pods make no difference to any decision.
type Pod struct {
	Key       model.PodKey
	Priority  int32
	Created   time.Time
	Node      string // spec.nodeName, "" if not bound
	DaemonSet string // namespace/name of the DaemonSet that owns it, "" if none
	Only      string // the one node that it may be on, if it is a DaemonSet's; "" if it is not, or says nothing of that
	Static    bool   // owned by its Node: goes with it
	Stateful  bool   // owned by a StatefulSet: its successor comes only when it is gone
	Apart     bool   // is alone in a microVM, or is to be: its successor gets another, never a place on a machine
	Maker     string // UID of the ReplicaSet that makes another pod in its place at once, "" if none does
	Waiting   bool   // wants a place: unbound, not ending, not gated, for the default scheduler, not a daemon's
	Terminal  bool   // Succeeded or Failed
	Deleting  bool
	Resizing  bool          // its resources are being changed in place: the shape may change with the status
	HeldUntil time.Time     // karpenter.sh/do-not-disrupt: until then; zero if not held
	Event     time.Time     // when it was last seen to come or end, by its own conditions; zero if not known
	Job       string        // namespace/name of the Job or CronJob whose it is, "" if it is none's
	Started   time.Time     // of a Job's pod: when it began to run; zero if not yet
	EndsBy    time.Time     // of a Job's pod: when its activeDeadlineSeconds are over; zero if it has none
	Ran       time.Duration // of a Job's pod that succeeded: how long it ran
	// EvictionCost is model.BoundPod's.
	EvictionCost int32
}

// Movable reports whether the pod will be somewhere else once its machine is gone. Of pods that are ending only those
// of a StatefulSet will: the successors of all others are there already, or come at once.
func (p *Pod) Movable() bool {
	return !p.Apart && !p.Daemon() && !p.Terminal && (!p.Deleting || p.Stateful)
}

// Daemon reports whether the pod goes with its node.
func (p *Pod) Daemon() bool { return p.DaemonSet != "" || p.Static }

// WaitsFor is the node that has no room for a DaemonSet's pod yet, "" if it is none or has its place.
func (p *Pod) WaitsFor() string {
	if p.Node != "" || p.Terminal || p.Deleting {
		return ""
	}
	return p.Only
}

// onlyNode is the node that the DaemonSet controller made the pod for: it says so by a required affinity on
// metadata.name.
func onlyNode(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// ReadPod translates all but the shape of a pod.
func ReadPod(pod *corev1.Pod) Pod {
	p := Pod{
		Key:     model.PodKey{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Created: pod.CreationTimestamp.Time, Node: pod.Spec.NodeName,
		Terminal:  pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		Deleting:  pod.DeletionTimestamp != nil,
		HeldUntil: heldUntil(pod), Resizing: Resizing(pod),
	}
	if pod.Spec.Priority != nil {
		p.Priority = *pod.Spec.Priority
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		switch owner.Kind {
		case "ReplicaSet", "ReplicationController":
			p.Maker = string(owner.UID)
		case "DaemonSet":
			p.DaemonSet, p.Only = pod.Namespace+"/"+owner.Name, onlyNode(pod)
		case "Node":
			p.Static = true
		case "StatefulSet":
			p.Stateful = true
		case "Job":
			p.readJob(pod, owner.Name)
		}
	}
	p.EvictionCost = evictionCost(pod, p.Priority)
	scheduler := pod.Spec.SchedulerName
	p.Apart = scheduler == v1alpha1.FargateScheduler
	p.Waiting = p.Node == "" && !p.Terminal && !p.Deleting && !p.Daemon() && len(pod.Spec.SchedulingGates) == 0 &&
		(scheduler == "" || scheduler == corev1.DefaultSchedulerName)
	if p.Node != "" && !p.Daemon() {
		p.Event = lastEvent(pod, p.Terminal)
	}
	return p
}

// evictionCost is 1 and a share of the pod's deletion cost and priority, in thousandths (reference karpenter.md §8.2).
func evictionCost(pod *corev1.Pod, priority int32) int32 {
	cost := 1000 + 1000*float64(priority)/(1<<25)
	// The annotation is an int32 (k8s.io/api core/v1 PodDeletionCost); what is none counts as none, as in
	// kube-controller-manager.
	if deletion, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32); err == nil {
		cost += 1000 * float64(deletion) / (1 << 27)
	}
	return int32(min(max(math.Round(cost), -10000), 10000))
}

// lastEvent is when the pod was bound or, if it is terminal, the last change of any of its conditions.
func lastEvent(pod *corev1.Pod, terminal bool) time.Time {
	var at time.Time
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if (terminal || c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue) && c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// heldUntil reads karpenter.sh/do-not-disrupt: "true", or a duration since the pod's start; any other value is ignored
// (reference karpenter.md §3.3).
func heldUntil(pod *corev1.Pod) time.Time {
	value, ok := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if !ok {
		return time.Time{}
	}
	if value == "true" {
		return Forever
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return time.Time{}
	}
	if pod.Status.StartTime == nil {
		return Forever
	}
	return pod.Status.StartTime.Add(d)
}
