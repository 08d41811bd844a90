package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/engine/model"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// snapshot returns a cluster without nodes in which the pods are pending. It translates only the constraints that
// pods.go creates.
func (c *catalogue) snapshot(pods []*corev1.Pod) *model.Snapshot {
	s := c.empty()
	g := grouping{at: map[string]int{}}
	for _, p := range pods {
		s.Pending = append(s.Pending, model.Pod{
			PodKey: model.PodKey{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, Shape: g.shape(p),
		})
	}
	s.Shapes = g.sorted(s.Pending)
	return s
}

// empty returns a cluster without nodes and pods.
func (c *catalogue) empty() *model.Snapshot {
	s := &model.Snapshot{
		ResourceNames: model.WellKnownResources,
		Pools: []model.Pool{{
			Name: "default", Requirements: model.NewRequirements(model.OneOf(model.LabelPool, "default")), Types: c.types,
		}},
		Namespaces: []model.Namespace{{
			Name:   namespace,
			Labels: []model.Label{{Key: "kubernetes.io/metadata.name", Value: namespace}},
		}},
	}
	for i, d := range c.daemons {
		s.Daemons = append(s.Daemons,
			model.Daemon{Namespace: "kube-system", Name: fmt.Sprintf("agent-%d", i), Shape: model.Shape{
				Key: fmt.Sprintf("agent-%d", i), Namespace: "kube-system", Requests: d,
				Tolerations: []model.Toleration{{Exists: true}},
			}})
	}
	return s
}

// grouping groups equal pods into shapes.
type grouping struct {
	at     map[string]int
	shapes []model.Shape
	key    strings.Builder
}

// shape returns the index of the pod's shape.
func (g *grouping) shape(p *corev1.Pod) int {
	g.key.Reset()
	g.writeKey(p)
	if i, ok := g.at[g.key.String()]; ok {
		return i
	}
	s := shapeOf(p)
	s.Key = g.key.String()
	g.shapes = append(g.shapes, s)
	g.at[s.Key] = len(g.shapes) - 1
	return len(g.shapes) - 1
}

// sorted returns the shapes sorted by Key, and renumbers the shapes of the pods.
func (g *grouping) sorted(pods []model.Pod) []model.Shape {
	order, to := make([]int, len(g.shapes)), make([]int, len(g.shapes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compare(g.shapes[a].Key, g.shapes[b].Key) })
	out := make([]model.Shape, len(order))
	for i, old := range order {
		out[i], to[old] = g.shapes[old], i
	}
	for i := range pods {
		pods[i].Shape = to[pods[i].Shape]
	}
	return out
}

func (g *grouping) writeKey(p *corev1.Pod) {
	r := requestsOf(p)
	fmt.Fprintf(&g.key, "%d %d %d ", r[model.CPU], r[model.Memory], r[model.NvidiaGPU])
	for _, l := range labels(p.Labels) {
		g.key.WriteString(l.Key + "=" + l.Value + " ")
	}
	writeSelector := func(word, topology string, s *metav1.LabelSelector) {
		g.key.WriteString(word + " " + topology + " ")
		for _, l := range labels(s.MatchLabels) {
			g.key.WriteString(l.Key + "=" + l.Value + " ")
		}
	}
	for _, t := range p.Spec.TopologySpreadConstraints {
		writeSelector("spread", t.TopologyKey, t.LabelSelector)
	}
	a := p.Spec.Affinity
	if a == nil {
		return
	}
	if a.PodAffinity != nil {
		for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			writeSelector("near", t.TopologyKey, t.LabelSelector)
		}
	}
	if a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			writeSelector("apart", t.TopologyKey, t.LabelSelector)
		}
		for _, t := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			writeSelector(fmt.Sprintf("rather apart %d", t.Weight), t.PodAffinityTerm.TopologyKey,
				t.PodAffinityTerm.LabelSelector)
		}
	}
	if a.NodeAffinity != nil {
		fmt.Fprintf(&g.key, "%v", a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func shapeOf(p *corev1.Pod) model.Shape {
	s := model.Shape{Requests: requestsOf(p), Namespace: p.Namespace, Labels: labels(p.Labels)}
	for _, t := range p.Spec.TopologySpreadConstraints {
		s.Spread = append(s.Spread,
			model.Spread{Topology: t.TopologyKey, MaxSkew: t.MaxSkew, Hard: true, Pods: selector(p, t.LabelSelector)})
	}
	a := p.Spec.Affinity
	if a == nil {
		return s
	}
	podTerm := func(t *corev1.PodAffinityTerm) model.PodTerm {
		return model.PodTerm{Topology: t.TopologyKey, Pods: selector(p, t.LabelSelector)}
	}
	if a.PodAffinity != nil {
		for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			s.Affinity = append(s.Affinity, podTerm(&t))
		}
	}
	if a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			s.AntiAffinity = append(s.AntiAffinity, podTerm(&t))
		}
		for _, t := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			s.PreferredPods = append(s.PreferredPods,
				model.PodPreference{Weight: -t.Weight, PodTerm: podTerm(&t.PodAffinityTerm)})
		}
	}
	if a.NodeAffinity != nil {
		for _, t := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			e := t.Preference.MatchExpressions[0]
			s.Preferred = append(s.Preferred,
				model.Preference{Weight: t.Weight, Terms: model.NewRequirements(model.OneOf(e.Key, e.Values...))})
		}
	}
	return s
}

func selector(p *corev1.Pod, s *metav1.LabelSelector) model.Selector {
	var rs model.Requirements
	for _, l := range labels(s.MatchLabels) {
		rs = append(rs, model.OneOf(l.Key, l.Value))
	}
	return model.Selector{Namespaces: []string{p.Namespace}, Labels: rs}
}

func labels(of map[string]string) []model.Label {
	out := make([]model.Label, 0, len(of))
	for k, v := range of {
		out = append(out, model.Label{Key: k, Value: v})
	}
	slices.SortFunc(out, func(a, b model.Label) int { return compare(a.Key, b.Key) })
	return out
}

func requestsOf(p *corev1.Pod) model.Resources {
	list := p.Spec.Containers[0].Resources.Requests
	gpus := list["nvidia.com/gpu"]
	return model.Resources{
		model.CPU: list.Cpu().MilliValue(), model.Memory: list.Memory().Value(),
		model.NvidiaGPU: gpus.Value(), model.Pods: 1,
	}
}
