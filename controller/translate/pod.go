package translate

import (
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/engine/model"
)

// Forever is the end of unlimited periods.
var Forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Pod holds what matters about a pod besides its shape. It is comparable: equal Pods lead to the same decisions.
type Pod struct {
	Key       model.PodKey
	Priority  int32
	Created   time.Time
	Node      string    // spec.nodeName, "" if not bound
	DaemonSet string    // namespace/name of the DaemonSet that owns it, "" if none
	Only      string    // the one node that a DaemonSet's pod may run on; "" for other pods
	Static    bool      // owned by its Node: removed with it
	Stateful  bool      // owned by a StatefulSet: its successor is created once it is gone
	Apart     bool      // runs, or will run, in its own microVM: its successor gets another one, never a place on a node
	Owner     types.UID // UID of its controller; "" for pods without one, of DaemonSets and of Nodes
	Maker     string    // UID of the ReplicaSet that creates a successor at once, "" if none does
	Waiting   bool      // unbound, not terminating, not gated, for the default scheduler, not of a DaemonSet
	Terminal  bool      // Succeeded or Failed
	Deleting  bool
	Resizing  bool          // its resources are being changed in place: the shape may change with the status
	HeldUntil time.Time     // karpenter.sh/do-not-disrupt: until then; zero if not held
	Event     time.Time     // when it was bound or ended, by its own conditions; zero if not known
	Job       string        // namespace/name of its Job or CronJob, "" if it has none
	Started   time.Time     // of a Job's pod: when it began to run; zero if not yet
	EndsBy    time.Time     // of a Job's pod: when its activeDeadlineSeconds expire; zero if it has none
	Ran       time.Duration // of a Job's pod that succeeded: how long it ran
	// EvictionCost is as in model.BoundPod.
	EvictionCost int32
}

// Movable reports whether the pod, or its successor, needs another place once its node is gone. Of terminating pods,
// only those of a StatefulSet do: the successors of others already exist, or are created at once.
func (p *Pod) Movable() bool {
	return !p.Apart && !p.Daemon() && !p.Terminal && (!p.Deleting || p.Stateful)
}

// Daemon reports whether the pod is removed with its node.
func (p *Pod) Daemon() bool { return p.DaemonSet != "" || p.Static }

// WaitsFor returns the node to which a DaemonSet's pod is yet to be bound, "" for bound and other pods.
func (p *Pod) WaitsFor() string {
	if p.Node != "" || p.Terminal || p.Deleting {
		return ""
	}
	return p.Only
}

// onlyNode returns the node that the DaemonSet controller created the pod for, according to the required affinity on
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

// ReadPod translates a pod of a cluster whose kube-scheduler is not configured, except for the pod's shape.
func ReadPod(pod *corev1.Pod) Pod { return SchedulerConfig{}.ReadPod(pod) }

// ReadPod translates a pod except for its shape.
func (c SchedulerConfig) ReadPod(pod *corev1.Pod) Pod {
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
		p.Owner = owner.UID
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
	if p.Daemon() {
		p.Owner = ""
	}
	p.EvictionCost = evictionCost(pod, p.Priority)
	p.Apart = pod.Spec.SchedulerName == v1alpha1.FargateScheduler
	p.Waiting = p.Node == "" && !p.Terminal && !p.Deleting && !p.Daemon() && len(pod.Spec.SchedulingGates) == 0 &&
		c.Schedules(pod.Spec.SchedulerName)
	if p.Node != "" && !p.Daemon() {
		p.Event = lastEvent(pod, p.Terminal)
	}
	return p
}

// maxEvictionCost is the cost of a thousand ordinary pods: a pod with it is hardly ever worth moving.
const maxEvictionCost = 1_000_000

// evictionCost returns the cost of evicting the pod, in thousandths of an ordinary pod. Every 100 of its deletion
// cost count as much as another pod: ReplicaSets compare costs of tens to thousands. Priority adds at most what it
// does in Karpenter (sigs.k8s.io/karpenter/pkg/controllers/disruption).
func evictionCost(pod *corev1.Pod, priority int32) int32 {
	cost := 1000 + min(1000*float64(priority)/(1<<25), 9000)
	// The annotation is an int32 (k8s.io/api core/v1 PodDeletionCost); other values are ignored, as in
	// kube-controller-manager.
	if deletion, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32); err == nil {
		cost += 1000 * float64(deletion) / 100
	}
	return int32(min(max(math.Round(cost), -maxEvictionCost), maxEvictionCost))
}

// lastEvent returns when the pod was bound or, if it is terminal, the last change of any of its conditions.
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

// heldUntil reads karpenter.sh/do-not-disrupt: "true", or a duration since the pod's start; any other value is
// ignored (karpenter.sh/docs/concepts/disruption). For a pod without it, Cluster Autoscaler's annotation counts.
func heldUntil(pod *corev1.Pod) time.Time {
	value, ok := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if !ok && HeldBy(pod) != "" {
		return Forever
	}
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

// jobOf returns the CronJob or Job of a pod as namespace/name, the same for all runs of a CronJob. The Jobs of a
// CronJob are named after it and the minute when they were due, counted from 1970 (k8s.io/kubernetes
// pkg/controller/cronjob, getJobName), so that Jobs need not be watched.
func jobOf(namespace, job string) string {
	if i := strings.LastIndexByte(job, '-'); i > 0 {
		if minute := job[i+1:]; len(minute) >= 8 && strings.Trim(minute, "0123456789") == "" {
			job = job[:i]
		}
	}
	return namespace + "/" + job
}

// readJob fills in what is known about how long a Job's pod runs.
func (p *Pod) readJob(pod *corev1.Pod, job string) {
	p.Job = jobOf(pod.Namespace, job)
	if pod.Status.StartTime == nil {
		return
	}
	p.Started = pod.Status.StartTime.Time
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil {
		p.EndsBy = p.Started.Add(time.Duration(min(*s, int64(Forever.Sub(p.Started)/time.Second))) * time.Second)
	}
	if at := lastEvent(pod, true); pod.Status.Phase == corev1.PodSucceeded && at.After(p.Started) {
		p.Ran = at.Sub(p.Started)
	}
}

// LeanPod removes from a pod what is never read here: images, commands, environment, probes and statuses of
// containers, which are most of its size. While a pod is being resized, it keeps the statuses of its containers,
// which say what the pod holds.
func LeanPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.ManagedFields = nil
	if pod.Spec.SchedulerName == v1alpha1.FargateScheduler {
		return pod, nil // its microVM is made from it
	}
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	resizing := Resizing(pod)
	LeanContainers(pod.Spec.InitContainers)
	LeanContainers(pod.Spec.Containers)
	pod.Spec.EphemeralContainers = nil
	pod.Status.EphemeralContainerStatuses = nil
	if !resizing {
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	}
	leanStatuses(pod.Status.InitContainerStatuses)
	leanStatuses(pod.Status.ContainerStatuses)
	return pod, nil
}

// LeanContainers removes from containers what affects neither where their pod may run nor what nodes have: it keeps
// the environment of the VPC CNI, which decides how many addresses nodes take.
func LeanContainers(containers []corev1.Container) {
	for i := range containers {
		c := &containers[i]
		containers[i] = corev1.Container{
			Name: c.Name, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy, Env: cniVariables(c),
		}
	}
}

func leanStatuses(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		s := &statuses[i]
		statuses[i] = corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources}
	}
}
