package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// addPodAffinity translates affinity and anti-affinity to other pods.
func addPodAffinity(s *model.Shape, pod *corev1.Pod) {
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	if a.PodAffinity != nil {
		s.Affinity = podTerms(s, pod, "podAffinity", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		addPodPreferences(s, pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 1)
	}
	if a.PodAntiAffinity != nil {
		s.AntiAffinity = podTerms(s, pod, "podAntiAffinity", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		addPodPreferences(s, pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, -1)
	}
}

func podTerms(s *model.Shape, pod *corev1.Pod, where string, terms []corev1.PodAffinityTerm) []model.PodTerm {
	if len(terms) == 0 {
		return nil
	}
	out := make([]model.PodTerm, 0, len(terms))
	for i := range terms {
		t, err := podTerm(pod, &terms[i])
		if err != nil {
			s.Unmodelled = append(s.Unmodelled, where+": "+err.Error())
			continue
		}
		out = append(out, t)
	}
	return out
}

// addPodPreferences adds preferred terms; sign is −1 for anti-affinity. It ignores unreadable terms.
func addPodPreferences(s *model.Shape, pod *corev1.Pod, terms []corev1.WeightedPodAffinityTerm, sign int32) {
	for i := range terms {
		if t, err := podTerm(pod, &terms[i].PodAffinityTerm); err == nil && terms[i].Weight != 0 {
			s.PreferredPods = append(s.PreferredPods, model.PodPreference{Weight: sign * terms[i].Weight, PodTerm: t})
		}
	}
}

// podTerm translates a term. Without namespaces and namespaceSelector it refers to the pod's own namespace.
func podTerm(pod *corev1.Pod, t *corev1.PodAffinityTerm) (model.PodTerm, error) {
	out := model.PodTerm{Topology: LabelKey(t.TopologyKey)}
	var err error
	if out.Pods, err = podSelector(t.LabelSelector, pod.Labels, t.MatchLabelKeys, t.MismatchLabelKeys); err != nil {
		return out, err
	}
	switch {
	case len(t.Namespaces) > 0:
		out.Pods.Namespaces = slices.Compact(slices.Sorted(slices.Values(t.Namespaces)))
	case t.NamespaceSelector == nil:
		out.Pods.Namespaces = []string{pod.Namespace}
	}
	if t.NamespaceSelector != nil {
		out.Pods.InMatching = true
		out.Pods.NamespaceLabels, err = labelSelector(t.NamespaceSelector)
	}
	return out, err
}

// podSelector translates a selector of pods. Labels with the keys in same must equal the pod's own, those in other must
// not; the API server has merged them into the selector already, which makes no difference.
func podSelector(sel *metav1.LabelSelector, own map[string]string, same, other []string) (model.Selector, error) {
	if sel == nil {
		return model.Selector{Nothing: true}, nil
	}
	labels, err := labelSelector(sel)
	if err != nil {
		return model.Selector{}, err
	}
	var more []model.Requirement
	for _, key := range same {
		if v, ok := own[key]; ok {
			more = append(more, model.OneOf(key, v))
		}
	}
	for _, key := range other {
		if v, ok := own[key]; ok {
			more = append(more, model.Requirement{Key: key, Complement: true, Values: []string{v}})
		}
	}
	return model.Selector{Labels: labels.And(model.NewRequirements(more...))}, nil
}

// labelSelector translates a label selector; the empty one, which matches everything, is nil.
func labelSelector(sel *metav1.LabelSelector) (model.Requirements, error) {
	if len(sel.MatchLabels)+len(sel.MatchExpressions) == 0 {
		return nil, nil
	}
	out := make([]model.Requirement, 0, len(sel.MatchLabels)+len(sel.MatchExpressions))
	for k, v := range sel.MatchLabels {
		out = append(out, model.OneOf(k, v))
	}
	for _, e := range sel.MatchExpressions {
		r, err := labelRequirement(e.Key, model.Operator(e.Operator), e.Values)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return model.NewRequirements(out...), nil
}

// addSpread translates topology spread constraints.
func addSpread(s *model.Shape, pod *corev1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		pods, err := podSelector(c.LabelSelector, pod.Labels, c.MatchLabelKeys, nil)
		if err != nil {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule {
				s.Unmodelled = append(s.Unmodelled, "topologySpreadConstraints: "+err.Error())
			}
			continue
		}
		pods.Namespaces = []string{pod.Namespace}
		if len(pods.Labels) == 0 {
			pods.Nothing = true // kube-scheduler counts no pods for an empty selector (countPodsMatchSelector)
		}
		out := model.Spread{
			Topology: LabelKey(c.TopologyKey), MaxSkew: c.MaxSkew, Hard: c.WhenUnsatisfiable == corev1.DoNotSchedule, Pods: pods,
			AnyNode:   c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore,
			Untainted: c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if c.MinDomains != nil {
			out.MinDomains = *c.MinDomains
		}
		s.Spread = append(s.Spread, out)
	}
}
