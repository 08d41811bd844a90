package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodeless/nodeless/engine/model"
)

// Shape is all of a pod that decides where it may go. It never fails: what cannot be translated is in Unmodelled.
// Preferences other than node affinity are left out, since no pod waits for them.
func (n *Names) Shape(pod *corev1.Pod) model.Shape {
	s := model.Shape{Tolerations: Tolerations(pod.Spec.Tolerations), Unmodelled: unmodelled(pod)}
	requests, err := n.Resources(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	if err != nil {
		s.Unmodelled = append(s.Unmodelled, err.Error())
	}
	s.Requests = requests
	s.Requests[model.Pods] = 1
	selector := make([]model.Requirement, 0, len(pod.Spec.NodeSelector))
	for k, v := range pod.Spec.NodeSelector {
		selector = append(selector, model.OneOf(labelKey(k), v))
	}
	if len(selector) > 0 {
		s.Required = model.NewRequirements(selector...)
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		addNodeAffinity(&s, a.NodeAffinity)
	}
	slices.Sort(s.Unmodelled)
	s.Unmodelled = slices.Compact(s.Unmodelled)
	s.Key = n.shapeKey(&s)
	return s
}

// addNodeAffinity translates the pod's node affinity. A single required term is as good as a node selector.
func addNodeAffinity(s *model.Shape, a *corev1.NodeAffinity) {
	if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		var terms []model.Requirements
		for _, t := range required.NodeSelectorTerms {
			if len(t.MatchFields) > 0 {
				s.Unmodelled = append(s.Unmodelled, "nodeAffinity.matchFields")
			}
			if len(t.MatchExpressions) == 0 {
				continue // matches no node
			}
			term, err := selectorTerm(t.MatchExpressions)
			if err != nil {
				s.Unmodelled = append(s.Unmodelled, "nodeAffinity: "+err.Error())
				continue
			}
			terms = append(terms, term)
		}
		slices.SortFunc(terms, compareRequirements)
		terms = slices.CompactFunc(terms, func(a, b model.Requirements) bool { return compareRequirements(a, b) == 0 })
		switch {
		case len(terms) > 1:
			s.AnyOf = terms
		case len(terms) == 1:
			s.Required = s.Required.And(terms[0])
		case len(s.Unmodelled) == 0:
			s.Unmodelled = append(s.Unmodelled, "nodeAffinity whose terms are all empty, which matches no node")
		}
	}
	for _, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term, err := selectorTerm(p.Preference.MatchExpressions)
		if err == nil && len(term) > 0 && len(p.Preference.MatchFields) == 0 {
			s.Preferred = append(s.Preferred, model.Preference{Weight: p.Weight, Terms: term})
		}
	}
	slices.SortFunc(s.Preferred, func(a, b model.Preference) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), compareRequirements(a.Terms, b.Terms))
	})
}

func compareRequirements(a, b model.Requirements) int { return strings.Compare(a.String(), b.String()) }

// unmodelled names the pod's hard constraints that the engine does not decide yet.
func unmodelled(pod *corev1.Pod) []string {
	var out []string
	add := func(found bool, name string) {
		if found {
			out = append(out, name)
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		add(a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "podAffinity")
		add(a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "podAntiAffinity")
	}
	add(slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}), "topologySpreadConstraints")
	hostPort := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
	}
	add(slices.ContainsFunc(pod.Spec.Containers, hostPort) || slices.ContainsFunc(pod.Spec.InitContainers, hostPort), "hostPort")
	add(slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	}), "persistentVolumeClaim")
	add(len(pod.Spec.ResourceClaims) > 0, "resourceClaims")
	return out
}

// shapeKey is the canonical text of a shape. Every part is quoted or free of the separators.
func (n *Names) shapeKey(s *model.Shape) string {
	var b strings.Builder
	b.Grow(128)
	names := n.List()
	for i, v := range s.Requests {
		if v != 0 {
			b.WriteString(names[i])
			b.WriteByte('=')
			b.WriteString(strconv.FormatInt(v, 10))
			b.WriteByte(' ')
		}
	}
	part := func(name, text string) {
		b.WriteString(name)
		b.WriteString(strconv.Quote(text))
	}
	if len(s.Required) > 0 {
		part("|required:", s.Required.String())
	}
	for _, t := range s.AnyOf {
		part("|any:", t.String())
	}
	for _, p := range s.Preferred {
		part("|preferred:"+strconv.Itoa(int(p.Weight)), p.Terms.String())
	}
	for _, t := range s.Tolerations {
		fmt.Fprintf(&b, "|tolerates:%q=%q %v %q", t.Key, t.Value, t.Exists, t.Effect)
	}
	for _, u := range s.Unmodelled {
		part("|unmodelled:", u)
	}
	return b.String()
}

// Daemon translates a DaemonSet. Constraints that the engine does not decide are left out: a daemon is there to run on
// every node, and room for one too many does no harm.
func (n *Names) Daemon(ds *appsv1.DaemonSet) model.Daemon {
	s := n.Shape(&corev1.Pod{Spec: ds.Spec.Template.Spec})
	s.Unmodelled = nil
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
func RunsOn(d *model.Daemon, m *model.Node) bool {
	if _, bad := model.Untolerated(m.Taints, slices.Concat(d.Shape.Tolerations, automatic)); bad {
		return false
	}
	var open func(string) bool
	if m.State == model.InFlight {
		open = func(string) bool { return true }
	}
	if m.Labels.Conflict(d.Shape.Required, open) != "" {
		return false
	}
	return len(d.Shape.AnyOf) == 0 || slices.ContainsFunc(d.Shape.AnyOf, func(term model.Requirements) bool {
		return m.Labels.Conflict(term, open) == ""
	})
}
