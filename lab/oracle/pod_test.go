package oracle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)

// pod returns a pod with the constraints that the case tests. Bound pods have fewer: only those that affect other
// pods.
func (g *gen) pod(name string, bound bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: pick(g, "default", "default", "blue", "green"), UID: types.UID(name),
		Labels:            map[string]string{},
		CreationTimestamp: metav1.Time{Time: noon},
	}}
	if g.chance(0.85) {
		p.Labels["app"] = pick(g, "web", "web", "db")
	}
	if g.chance(0.6) {
		p.Labels["track"] = pick(g, "1", "2")
	}
	if g.on[spread] && g.chance(0.6) {
		p.Namespace, p.Labels["app"] = "default", "web"
	}
	g.containers(p, bound)
	if g.on[volumes] {
		g.mount(p)
	}
	if bound {
		if g.chance(0.06) {
			p.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
		}
		if g.chance(0.1) {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		}
	}
	if g.on[affinityToPods] && (!bound || g.chance(0.25)) {
		g.podAffinity(p, bound)
	}
	if bound {
		return p
	}
	if g.chance(0.1) {
		g.prefer(p)
	}
	if g.on[affinityToNodes] {
		g.nodeAffinity(p)
	}
	if g.on[taints] || g.on[spread] && g.chance(0.5) {
		g.tolerate(p)
	}
	if g.on[spread] {
		g.spread(p)
	}
	return p
}

// prefer adds preferences, which never forbid anything.
func (g *gen) prefer(p *corev1.Pod) {
	a := affinity(p)
	a.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 50, Preference: g.nodeTerm()}}}
	a.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: g.podTerm(p)}}}
	a.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: g.podTerm(p)}}}
}

func affinity(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func (g *gen) tolerate(p *corev1.Pod) {
	for range 1 + g.IntN(5) {
		t := corev1.Toleration{
			Key: pick(g, taintA, taintA, taintB, taintB, corev1.TaintNodeMemoryPressure, corev1.TaintNodeUnschedulable,
				corev1.TaintNodeUnschedulable, ""),
			Effect: pick(g, "", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
				corev1.TaintEffectPreferNoSchedule),
		}
		if t.Key == "" || g.chance(0.5) {
			t.Operator = corev1.TolerationOpExists
		} else {
			t.Operator, t.Value = pick(g, corev1.TolerationOpEqual, ""), pick(g, "", "x", "y")
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	}
}

func (g *gen) nodeAffinity(p *corev1.Pod) {
	if g.chance(0.25) {
		p.Spec.NodeSelector = map[string]string{}
		for _, r := range some(g, 2, g.nodeRequirement(), g.nodeRequirement()) {
			if r.Operator == corev1.NodeSelectorOpIn {
				p.Spec.NodeSelector[r.Key] = r.Values[0]
			}
		}
	}
	if g.chance(0.2) {
		return
	}
	required := &corev1.NodeSelector{}
	for range 1 + g.IntN(3) {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, g.nodeTerm())
	}
	if affinity(p).NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
}

func (g *gen) nodeTerm() corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	for range pick(g, 0, 1, 1, 1, 2, 2, 3) {
		t.MatchExpressions = append(t.MatchExpressions, g.nodeRequirement())
	}
	if n := len(t.MatchExpressions); n > 0 && g.chance(0.25) {
		// A second requirement on the same key: contradictions, "Exists and NotIn", bounds from both sides.
		r := g.nodeRequirement()
		for r.Key != t.MatchExpressions[0].Key {
			r = g.nodeRequirement()
		}
		t.MatchExpressions = append(t.MatchExpressions, r)
	}
	if g.chance(0.2) {
		t.MatchFields = []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn,
				corev1.NodeSelectorOpNotIn),
			Values: []string{pick(g, "n0", "n1", "n2", "nowhere")},
		}}
		if g.chance(0.2) {
			t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{
				Key: "metadata.name", Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
				Values: []string{pick(g, "n0", "n1")},
			})
		}
	}
	return t
}

func (g *gen) nodeRequirement() corev1.NodeSelectorRequirement {
	r := corev1.NodeSelectorRequirement{
		Key: pick(g, corev1.LabelTopologyZone, corev1.LabelTopologyZone, "tier", generation, generation, corev1.LabelOSStable,
			betaOS, corev1.LabelHostname, rack),
		Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
			corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist),
	}
	if r.Key == generation && g.chance(0.6) {
		r.Operator = pick(g, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
		r.Values = []string{pick(g, "0", "4", "5", "7", "9", "007", "-1", "x", "5.5", "9223372036854775807",
			"9223372036854775808", "")}
		return r
	}
	values := map[string][]string{
		corev1.LabelTopologyZone: {"a", "b", "c", "d"}, "tier": {"gold", "silver", ""},
		generation:           {"1", "5", "07", "7", "x9", "9"},
		corev1.LabelOSStable: {"linux", "windows"}, betaOS: {"linux", "windows"},
		corev1.LabelHostname: {"n0", "n1", "n2"}, rack: {"r1", "r2", "r3"},
	}[r.Key]
	if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn {
		r.Values = some(g, 3, values...)
		if len(r.Values) == 0 {
			r.Values = []string{pick(g, values...)}
		}
		if g.chance(0.03) {
			r.Values = append(r.Values, "no label value!") // the API server accepts it; the scheduler cannot parse the term
		}
	}
	return r
}

func (g *gen) selector(keys ...string) *metav1.LabelSelector {
	if g.chance(0.05) {
		return nil
	}
	s := &metav1.LabelSelector{}
	if g.chance(0.6) {
		s.MatchLabels = map[string]string{keys[0]: g.labelValue(keys[0])}
	}
	for range g.IntN(2) {
		key := pick(g, keys...)
		e := metav1.LabelSelectorRequirement{
			Key: key, Operator: pick(g, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
				metav1.LabelSelectorOpDoesNotExist),
		}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = []string{g.labelValue(key)}
			if g.chance(0.3) {
				e.Values = append(e.Values, g.labelValue(key))
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func (g *gen) labelValue(key string) string {
	switch key {
	case "track":
		return pick(g, "1", "2")
	case "team":
		return pick(g, "red", "white")
	}
	return pick(g, "web", "web", "db")
}

func (g *gen) podAffinity(p *corev1.Pod, bound bool) {
	if !bound && g.chance(0.45) || g.chance(0.1) {
		a := affinity(p).PodAffinity
		if a == nil {
			a = &corev1.PodAffinity{}
		}
		for range pick(g, 1, 1, 2) {
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
				g.podTerm(p))
		}
		affinity(p).PodAffinity = a
	}
	if g.chance(0.5) {
		a := affinity(p).PodAntiAffinity
		if a == nil {
			a = &corev1.PodAntiAffinity{}
		}
		for range pick(g, 1, 1, 2) {
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
				g.podTerm(p))
		}
		affinity(p).PodAntiAffinity = a
	}
}

func (g *gen) podTerm(p *corev1.Pod) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{
		LabelSelector: g.selector("app", "track"),
		TopologyKey:   pick(g, corev1.LabelTopologyZone, corev1.LabelHostname, rack),
	}
	if g.chance(0.3) {
		t.Namespaces = some(g, 2, "default", "blue", "green")
	}
	if g.chance(0.3) {
		t.NamespaceSelector = g.selector("team")
	}
	if t.LabelSelector != nil {
		if g.chance(0.15) {
			t.MatchLabelKeys = []string{pick(g, "track", "version")}
			merge(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
		} else if g.chance(0.15) {
			t.MismatchLabelKeys = []string{pick(g, "track", "version")}
			merge(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, p.Labels)
		}
	}
	return t
}

// merge does what the API server does with matchLabelKeys when a pod is created.
func merge(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) {
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			s.MatchExpressions = append(s.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}

func (g *gen) spread(p *corev1.Pod) {
	if g.chance(0.5) {
		g.keepToSomeNodes(p)
	}
	for _, key := range some(g, pick(g, 2, 3), corev1.LabelTopologyZone, corev1.LabelHostname, rack) {
		c := corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: pick[int32](g, 1, 1, 1, 1, 2),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			WhenUnsatisfiable: pick(g, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule,
				corev1.DoNotSchedule, corev1.ScheduleAnyway),
		}
		if g.chance(0.5) {
			c.LabelSelector = g.selector("app", "track")
		}
		if g.chance(0.25) && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			c.MinDomains = new(pick[int32](g, 1, 3, 4, 5))
		}
		if g.chance(0.6) {
			c.NodeAffinityPolicy = new(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if g.chance(0.6) {
			c.NodeTaintsPolicy = new(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if c.LabelSelector != nil && g.chance(0.2) {
			c.MatchLabelKeys = []string{pick(g, "track", "version")}
			if g.chance(0.7) { // pods created before Kubernetes 1.34 are unmerged
				merge(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
			}
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// keepToSomeNodes gives the pod a node affinity that excludes domains.
func (g *gen) keepToSomeNodes(p *corev1.Pod) {
	key := pick(g, corev1.LabelTopologyZone, corev1.LabelHostname, rack)
	value := map[string]string{
		corev1.LabelTopologyZone: pick(g, "a", "b"), corev1.LabelHostname: pick(g, "n0", "n1"),
		rack: "r1",
	}[key]
	if key != corev1.LabelHostname && g.chance(0.4) {
		p.Spec.NodeSelector = map[string]string{key: value}
		return
	}
	if affinity(p).NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: key, Operator: corev1.NodeSelectorOpNotIn,
			Values: []string{value},
		}}},
	}}
}
