package translate

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodeless/nodeless/engine/model"
)

// Shape is all of a pod that decides where it may go. It never fails: what cannot be translated is in Unmodelled.
// Storage finds what the pod's volumes are about; nil if that is not known, then such volumes are Unmodelled.
func (n *Names) Shape(pod *corev1.Pod, storage Storage) model.Shape {
	s := model.Shape{
		Tolerations: Tolerations(pod.Spec.Tolerations),
		Namespace:   pod.Namespace, Labels: labelsOf(pod.Labels),
		HostPorts: hostPorts(&pod.Spec),
	}
	requests, err := n.Resources(resourcehelper.PodRequests(pod, asHeld))
	if err != nil {
		s.Unmodelled = append(s.Unmodelled, err.Error())
	}
	s.Requests = requests
	s.Requests[model.Pods] = 1
	addNodeAffinity(&s, pod)
	addPodAffinity(&s, pod)
	addSpread(&s, pod)
	addVolumes(&s, pod, storage)
	if len(pod.Spec.ResourceClaims) > 0 {
		s.Unmodelled = append(s.Unmodelled, "resourceClaims")
	}
	slices.Sort(s.Unmodelled)
	s.Unmodelled = slices.Compact(s.Unmodelled)
	s.Key = n.shapeKey(&s)
	return s
}

// asHeld makes PodRequests count what kube-scheduler counts: while a pod is resized in place, the larger of what it
// asks for and what it still has.
var asHeld = resourcehelper.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
}

// Resizing reports whether the pod holds other resources than its spec says.
func Resizing(pod *corev1.Pod) bool {
	reported := func(s corev1.ContainerStatus) bool { return s.Resources != nil || s.AllocatedResources != nil }
	if pod.Status.Resources == nil && pod.Status.AllocatedResources == nil &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, reported) &&
		!slices.ContainsFunc(pod.Status.InitContainerStatuses, reported) {
		return false
	}
	spec := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for name, held := range resourcehelper.PodRequests(pod, asHeld) {
		if said := spec[name]; said.Cmp(held) != 0 {
			return true
		}
	}
	return false
}

// labelsOf are labels by key, nil if there are none.
func labelsOf(labels map[string]string) []model.Label {
	if len(labels) == 0 {
		return nil
	}
	out := make([]model.Label, 0, len(labels))
	for k, v := range labels {
		out = append(out, model.Label{Key: k, Value: v})
	}
	slices.SortFunc(out, func(a, b model.Label) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// Namespace translates a namespace.
func Namespace(ns *corev1.Namespace) model.Namespace {
	return model.Namespace{Name: ns.Name, Labels: labelsOf(ns.Labels)}
}

// hostPorts are the ports of its node that the pod's containers and sidecars take, sorted; of pods on the host's
// network the API server says them too.
func hostPorts(spec *corev1.PodSpec) []model.HostPort {
	var out []model.HostPort
	add := func(ports []corev1.ContainerPort) {
		for _, p := range ports {
			if p.HostPort > 0 {
				out = append(out, model.HostPort{
					IP:       cmp.Or(p.HostIP, "0.0.0.0"),
					Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: p.HostPort,
				})
			}
		}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c.Ports)
		}
	}
	for i := range spec.Containers {
		add(spec.Containers[i].Ports)
	}
	slices.SortFunc(out, func(a, b model.HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.IP, b.IP))
	})
	return slices.Compact(out)
}

// Daemon translates a DaemonSet. What could not be translated is left out, and so are its volumes: a daemon is there to
// run on every node, and room for one too many does no harm. Ranges are the LimitRanges of its namespace.
func (n *Names) Daemon(ds *appsv1.DaemonSet, ranges []*corev1.LimitRange) model.Daemon {
	t := &ds.Spec.Template
	s := n.Shape(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Labels: t.Labels}, Spec: AsCreated(&t.Spec, ranges),
	}, nil)
	s.Unmodelled, s.Volumes, s.Blocked = nil, nil, ""
	s.Key = n.shapeKey(&s)
	return model.Daemon{Namespace: ds.Namespace, Name: ds.Name, Shape: s}
}

// automatic are the tolerations that the DaemonSet controller adds to its pods (Kubernetes documentation, "DaemonSet:
// taints and tolerations").
var automatic = []model.Toleration{
	{Key: corev1.TaintNodeNotReady, Exists: true, Effect: model.NoExecute},
	{Key: corev1.TaintNodeUnreachable, Exists: true, Effect: model.NoExecute},
	{Key: corev1.TaintNodeDiskPressure, Exists: true, Effect: model.NoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Exists: true, Effect: model.NoSchedule},
	{Key: corev1.TaintNodePIDPressure, Exists: true, Effect: model.NoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Exists: true, Effect: model.NoSchedule},
	{Key: corev1.TaintNodeNetworkUnavailable, Exists: true, Effect: model.NoSchedule},
}

// RunsOn reports whether a daemon's pod will come to the machine; of a machine in flight, whether it may.
func RunsOn(d *model.Daemon, m *model.Node) bool { return runsOn(d, m, m.Taints) }

// StaysOn reports whether a daemon's pod that was made for the machine is left there: the DaemonSet controller takes
// none away for a taint that only keeps others from coming, such as that of a machine that is to go.
func StaysOn(d *model.Daemon, m *model.Node) bool {
	return runsOn(d, m, slices.DeleteFunc(slices.Clone(m.Taints),
		func(t model.Taint) bool { return t.Effect != model.NoExecute }))
}

func runsOn(d *model.Daemon, m *model.Node, taints []model.Taint) bool {
	if _, bad := model.Untolerated(taints, slices.Concat(d.Shape.Tolerations, automatic)); bad {
		return false
	}
	if !allows(m, d.Shape.Required) {
		return false
	}
	return len(d.Shape.AnyOf) == 0 ||
		slices.ContainsFunc(d.Shape.AnyOf, func(term model.Requirements) bool { return allows(m, term) })
}

// allows reports whether the machine satisfies the requirements; of a machine in flight, whether it may.
func allows(m *model.Node, rs model.Requirements) bool {
	labels := m.Labels
	if _, byName := rs.Get(model.NodeNameField); byName && m.State != model.InFlight {
		labels = labels.And(model.Requirements{model.OneOf(model.NodeNameField, m.Name)})
	}
	var open func(string) bool
	if m.State == model.InFlight {
		open = func(key string) bool { return key != model.NodeNameField }
	}
	return labels.Conflict(rs, open) == ""
}
