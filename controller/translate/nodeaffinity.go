package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodeless/nodeless/engine/model"
)

// noNode is a requirement that no node satisfies.
var noNode = model.Requirement{Key: model.NodeNameField, Present: true}

// addNodeAffinity translates the pod's node selector and node affinity. A single required term is equivalent to a
// node selector. The name of the node that a DaemonSet's pod is for is left out: the pod runs there or nowhere, and
// with the name each pod of the DaemonSet would have its own shape. spec.os counts as a node selector, although
// kube-scheduler does not read it: the kubelet of another operating system refuses the pod.
func addNodeAffinity(s *model.Shape, pod *corev1.Pod) {
	selector := make([]model.Requirement, 0, len(pod.Spec.NodeSelector)+1)
	for k, v := range pod.Spec.NodeSelector {
		selector = append(selector, model.OneOf(LabelKey(k), v))
	}
	if pod.Spec.OS != nil {
		selector = append(selector, model.OneOf(model.LabelOS, string(pod.Spec.OS.Name)))
	}
	if len(selector) > 0 {
		s.Required = model.NewRequirements(selector...)
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return
	}
	a := pod.Spec.Affinity.NodeAffinity
	if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		addRequiredTerms(s, required.NodeSelectorTerms, ofDaemonSet(pod))
	}
	for _, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term, err := nodeTerm(&p.Preference)
		if err == nil && len(term) > 0 && p.Weight != 0 {
			s.Preferred = append(s.Preferred, model.Preference{Weight: p.Weight, Terms: term})
		}
	}
	slices.SortFunc(s.Preferred, func(a, b model.Preference) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), compareRequirements(a.Terms, b.Terms))
	})
}

func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// addRequiredTerms adds terms of which one must hold. As in kube-scheduler, empty and unreadable terms match no node;
// if there are no others, Unmodelled says what cannot be read.
func addRequiredTerms(s *model.Shape, terms []corev1.NodeSelectorTerm, nameless bool) {
	var out []model.Requirements
	var bad []string
	for i := range terms {
		t := &terms[i]
		if nameless && len(t.MatchFields) > 0 {
			t = &corev1.NodeSelectorTerm{MatchExpressions: t.MatchExpressions}
			if len(t.MatchExpressions) == 0 {
				return // any node
			}
		}
		term, err := nodeTerm(t)
		switch {
		case err != nil:
			bad = append(bad, "nodeAffinity: "+err.Error())
		case len(term) > 0:
			out = append(out, term)
		}
	}
	slices.SortFunc(out, compareRequirements)
	out = slices.CompactFunc(out, func(a, b model.Requirements) bool { return compareRequirements(a, b) == 0 })
	switch {
	case len(out) > 1:
		s.AnyOf = out
	case len(out) == 1:
		s.Required = s.Required.And(out[0])
	case len(bad) > 0:
		s.Unmodelled = append(s.Unmodelled, bad...)
	default:
		s.Required = s.Required.And(model.Requirements{noNode})
	}
}

func compareRequirements(a, b model.Requirements) int { return strings.Compare(a.String(), b.String()) }

// nodeTerm translates one term of node affinity; the empty term, which matches no node, is nil.
func nodeTerm(t *corev1.NodeSelectorTerm) (model.Requirements, error) {
	if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
		return nil, nil
	}
	out := make([]model.Requirement, 0, len(t.MatchExpressions)+len(t.MatchFields))
	for _, e := range t.MatchExpressions {
		r, err := labelRequirement(LabelKey(e.Key), model.Operator(e.Operator), e.Values)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	for _, f := range t.MatchFields {
		op := model.Operator(f.Operator)
		if f.Key != metav1.ObjectNameField || len(f.Values) != 1 || op != model.In && op != model.NotIn {
			return nil, fmt.Errorf("matchFields %s %s %v: want metadata.name In or NotIn with one name", f.Key, f.Operator,
				f.Values)
		}
		r, err := requirement(model.NodeNameField, op, f.Values)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return model.NewRequirements(out...), nil
}

// labelRequirement is requirement for a label. As in kube-scheduler, it refuses values that no label can have, such
// as −1.
func labelRequirement(key string, op model.Operator, values []string) (model.Requirement, error) {
	for _, v := range values {
		if problems := validation.IsValidLabelValue(v); len(problems) > 0 {
			return model.Requirement{}, fmt.Errorf("requirement %s %s %q: not a value of a label: %s", key, op, v, problems[0])
		}
	}
	return requirement(key, op, values)
}

// requirement translates one requirement of a selector. NodePools have more operators than Kubernetes accepts here.
func requirement(key string, op model.Operator, values []string) (model.Requirement, error) {
	switch op {
	case model.In, model.NotIn:
		if len(values) == 0 {
			return model.Requirement{}, fmt.Errorf("requirement %s %s: has no values", key, op)
		}
	case model.Gte, model.Lte:
		return model.Requirement{}, fmt.Errorf("requirement %s: unknown operator %q", key, op)
	}
	return model.NewRequirement(key, op, values...)
}
