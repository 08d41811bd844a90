package translate

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensions "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

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

// AsItsPod returns the daemon with what one of its pods requests and the host ports that the pod takes. These may
// differ from the template: admission adds the overhead of a RuntimeClass, and webhooks change requests.
func (n *Names) AsItsPod(d model.Daemon, pod *model.Shape) model.Daemon {
	d.Shape.Requests, d.Shape.HostPorts = pod.Requests, pod.HostPorts
	d.Shape.Key = n.shapeKey(&d.Shape)
	return d
}

// TemplateOfDaemonSet returns the generation of the DaemonSet's pod template, 0 if it is unknown.
func TemplateOfDaemonSet(ds *appsv1.DaemonSet) int64 {
	n, _ := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	return n
}

// TemplateOfDaemonPod returns the generation of the template that a DaemonSet's pod was made from, 0 if it is unknown
// (k8s.io/kubernetes/pkg/controller/daemon/util, CreatePodTemplate, v1.36).
func TemplateOfDaemonPod(pod *corev1.Pod) int64 {
	n, _ := strconv.ParseInt(pod.Labels[extensions.DaemonSetTemplateGenerationKey], 10, 64)
	return n
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

// AsCreated returns the spec of a pod template as the API server will create it. Where a container has a limit and no
// request, the limit is the request, and the namespace's LimitRanges fill in requests and limits (Kubernetes
// documentation, "Limit Ranges"). On the host's network, each port of a container is one of the host
// (k8s.io/kubernetes/pkg/apis/core/v1, SetDefaults_Pod, v1.36; pod templates lack it). The template is not changed.
func AsCreated(spec *corev1.PodSpec, ranges []*corev1.LimitRange) corev1.PodSpec {
	out := *spec
	out.InitContainers = containersAsCreated(spec.InitContainers, ranges, spec.HostNetwork)
	out.Containers = containersAsCreated(spec.Containers, ranges, spec.HostNetwork)
	out.Resources = podResourcesAsCreated(spec)
	return out
}

func containersAsCreated(containers []corev1.Container, ranges []*corev1.LimitRange, hostNetwork bool,
) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(containers))
	for i, c := range containers {
		requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
		fill(requests, c.Resources.Requests)
		fill(requests, c.Resources.Limits)
		fill(limits, c.Resources.Limits)
		for _, r := range ranges {
			for _, item := range r.Spec.Limits {
				if item.Type == corev1.LimitTypeContainer {
					fill(requests, item.DefaultRequest)
					fill(requests, item.Default) // the API server uses it as the DefaultRequest if there is none
					fill(limits, item.Default)
				}
			}
		}
		c.Resources.Requests, c.Resources.Limits = requests, limits
		if hostNetwork {
			c.Ports = slices.Clone(c.Ports)
			for k := range c.Ports {
				c.Ports[k].HostPort = cmp.Or(c.Ports[k].HostPort, c.Ports[k].ContainerPort)
			}
		}
		out[i] = c
	}
	return out
}

// podResourcesAsCreated returns the resources of the pod as a whole. If it has limits, the API server adds what it does
// not request: of CPU and memory the sum of its containers, else the limit. It does so before LimitRanges apply
// (k8s.io/kubernetes/pkg/apis/core/v1, defaultPodRequests, v1.36).
func podResourcesAsCreated(spec *corev1.PodSpec) *corev1.ResourceRequirements {
	if spec.Resources == nil || len(spec.Resources.Limits) == 0 {
		return spec.Resources
	}
	sum := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: containersAsCreated(spec.InitContainers, nil, false),
		Containers:     containersAsCreated(spec.Containers, nil, false),
	}}, resourcehelper.PodResourcesOptions{})
	out := spec.Resources.DeepCopy()
	if out.Requests == nil {
		out.Requests = corev1.ResourceList{}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount, ok := sum[name]; ok {
			fill(out.Requests, corev1.ResourceList{name: amount})
		}
	}
	fill(out.Requests, out.Limits)
	return out
}

// fill adds the amounts of resources that the list lacks.
func fill(list, amounts corev1.ResourceList) {
	for name, amount := range amounts {
		if _, said := list[name]; !said {
			list[name] = amount
		}
	}
}
