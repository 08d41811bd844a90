package oracle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// asMeant returns the pod with the namespaces that its namespaceSelectors match written out.
//
// kube-scheduler v1.36.2 is meant to do that itself: mergeAffinityTermNamespacesIfNotEmpty (plugin InterPodAffinity)
// adds the names and then clears the selector, but in a copy of the term. So a selector that is satisfied by a
// label's absence (NotIn, DoesNotExist) still matches every namespace for the pending pod. The rules follow the
// documentation.
func asMeant(pod *corev1.Pod, namespaces []*corev1.Namespace) *corev1.Pod {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return pod
	}
	pod = pod.DeepCopy()
	a = pod.Spec.Affinity
	if a.PodAffinity != nil {
		nameNamespaces(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, namespaces)
	}
	if a.PodAntiAffinity != nil {
		nameNamespaces(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, namespaces)
	}
	return pod
}

func nameNamespaces(terms []corev1.PodAffinityTerm, namespaces []*corev1.Namespace) {
	for i := range terms {
		t := &terms[i]
		if t.NamespaceSelector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		if err != nil || selector.Empty() {
			continue
		}
		for _, ns := range namespaces {
			if selector.Matches(labels.Set(ns.Labels)) {
				t.Namespaces = append(t.Namespaces, ns.Name)
			}
		}
		if t.NamespaceSelector = nil; len(t.Namespaces) == 0 {
			t.Namespaces = []string{"none"} // an empty list would mean the pod's own namespace
		}
	}
}

// When this fails the scheduler has been fixed, and asMeant can be removed.
func TestKubeSchedulerStillForgetsNamespaces(t *testing.T) {
	c := generate(1, 1)
	label := func(ns *corev1.Namespace) { ns.Labels = map[string]string{"team": "red"} }
	for _, ns := range c.Namespaces {
		label(ns)
	}
	c.Nodes = c.Nodes[:1]
	c.Nodes[0].Labels = map[string]string{corev1.LabelHostname: "n0"}
	c.Pods, c.Claims = nil, nil
	c.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pending", Namespace: "default", UID: "pending"}}
	c.Pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key:      "team",
				Operator: "DoesNotExist",
			}}},
		}},
	}}
	truth := newTruth(t)
	meant := truth.judge(c)[0].rejectedBy("InterPodAffinity") != ""
	truth.literal = true
	does := truth.judge(c)[0].rejectedBy("InterPodAffinity") != ""
	if !meant || does {
		t.Errorf("no pod is in such a namespace: it should be refused (%v), and is not (%v)", meant, !does)
	}
}
