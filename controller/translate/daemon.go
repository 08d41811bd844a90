package translate

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Daemon translates a DaemonSet. It omits what cannot be translated, and volumes: daemons run on every node, and room
// for one too many does no harm. ranges are the LimitRanges of its namespace.
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

// RunsOn reports whether a daemon's pod will run on the node; for a node in flight, whether it may.
func RunsOn(d *model.Daemon, n *model.Node) bool { return runsOn(d, n, n.Taints) }

// StaysOn reports whether a daemon's existing pod for the node is left there: the DaemonSet controller deletes no pod
// because of a NoSchedule taint, such as the taint of a node being removed.
func StaysOn(d *model.Daemon, n *model.Node) bool {
	return runsOn(d, n, slices.DeleteFunc(slices.Clone(n.Taints),
		func(t model.Taint) bool { return t.Effect != model.NoExecute }))
}

func runsOn(d *model.Daemon, n *model.Node, taints []model.Taint) bool {
	if _, bad := model.Untolerated(taints, slices.Concat(d.Shape.Tolerations, automatic)); bad {
		return false
	}
	if !allows(n, d.Shape.Required) {
		return false
	}
	return len(d.Shape.AnyOf) == 0 ||
		slices.ContainsFunc(d.Shape.AnyOf, func(term model.Requirements) bool { return allows(n, term) })
}

// allows reports whether the node satisfies the requirements; for a node in flight, whether it may.
func allows(n *model.Node, rs model.Requirements) bool {
	labels := n.Labels
	if _, byName := rs.Get(model.NodeNameField); byName && n.State != model.InFlight {
		labels = labels.And(model.Requirements{model.OneOf(model.NodeNameField, n.Name)})
	}
	var open func(string) bool
	if n.State == model.InFlight {
		open = func(key string) bool { return key != model.NodeNameField }
	}
	return labels.Conflict(rs, open) == ""
}

// AsCreated returns the spec of a pod template as the API server will create it: where a container has a limit and no
// request, the limit is the request, and the namespace's LimitRanges fill in where it has neither (Kubernetes
// documentation, "Limit Ranges"). The template is not changed.
func AsCreated(spec *corev1.PodSpec, ranges []*corev1.LimitRange) corev1.PodSpec {
	out := *spec
	out.InitContainers = withRequests(spec.InitContainers, ranges)
	out.Containers = withRequests(spec.Containers, ranges)
	return out
}

func withRequests(containers []corev1.Container, ranges []*corev1.LimitRange) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(containers))
	for i, c := range containers {
		requests := corev1.ResourceList{}
		fill := func(amounts corev1.ResourceList) {
			for name, amount := range amounts {
				if _, said := requests[name]; !said {
					requests[name] = amount
				}
			}
		}
		fill(c.Resources.Requests)
		fill(c.Resources.Limits)
		for _, r := range ranges {
			for _, item := range r.Spec.Limits {
				if item.Type == corev1.LimitTypeContainer {
					fill(item.DefaultRequest)
					fill(item.Default) // the API server uses it as the DefaultRequest if there is none
				}
			}
		}
		c.Resources.Requests = requests
		out[i] = c
	}
	return out
}
