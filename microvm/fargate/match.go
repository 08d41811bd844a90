package fargate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// Choice is the choice of a profile for a pod.
type Choice struct {
	Profile *v1alpha1.FargateProfile // nil if no profile selects the pod
	Others  []string                 // other profiles that select the pod, by name
	// Note says why the profile that the pod's label names does not select it, as a whole sentence; "" if not needed.
	Note string
}

// Choose chooses the profile of a new pod: the one that its label names, if that selects it, or without the label the
// first by name that selects it.
func Choose(profiles []*v1alpha1.FargateProfile, pod *corev1.Pod) Choice {
	var matching []*v1alpha1.FargateProfile
	for _, p := range profiles {
		if p.DeletionTimestamp == nil && Selects(&p.Spec, pod) {
			matching = append(matching, p)
		}
	}
	slices.SortFunc(matching, func(a, b *v1alpha1.FargateProfile) int { return strings.Compare(NameOf(a), NameOf(b)) })
	wanted := pod.Labels[ProfileLabel]
	if wanted == "" && len(matching) == 0 || excluded(pod) {
		return Choice{}
	}
	if wanted == "" {
		return chosen(matching, 0)
	}
	named := func(p *v1alpha1.FargateProfile) bool { return p.Name == wanted || NameOf(p) == wanted }
	at := slices.IndexFunc(matching, named)
	switch {
	case at >= 0:
		return chosen(matching, at)
	case slices.ContainsFunc(profiles, named):
		return Choice{Note: "Label " + ProfileLabel + " names FargateProfile " + wanted +
			", but none of its selectors fits the pod: the pod gets no microVM"}
	}
	return Choice{Note: "Label " + ProfileLabel + " names FargateProfile " + wanted +
		", which does not exist: the pod gets no microVM"}
}

// NameOf returns a profile's name at EKS.
func NameOf(p *v1alpha1.FargateProfile) string { return cmp.Or(p.Annotations[NameAnnotation], p.Name) }

func chosen(matching []*v1alpha1.FargateProfile, at int) Choice {
	c := Choice{Profile: matching[at]}
	for i, p := range matching {
		if i != at {
			c.Others = append(c.Others, p.Name)
		}
	}
	return c
}

// excluded reports whether no profile may select a pod: it opted out, belongs to a DaemonSet or to its Node, or is
// bound.
func excluded(pod *corev1.Pod) bool {
	if pod.Annotations[ComputeType] == ComputeTypeEC2 || pod.Spec.NodeName != "" {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// NodePrefix is the prefix of the names of microVMs' Nodes.
const NodePrefix = "fargate-ip-"

// TakesNode reports whether a new pod sets nodeName to the Node of another pod's microVM. The Node has no room for
// it, and fargate-scheduler says so in the pod's status, as a kubelet does.
func TakesNode(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Spec.NodeName, NodePrefix) }

// Selects reports whether any selector of a profile matches a pod's namespace and labels.
func Selects(spec *v1alpha1.FargateProfileSpec, pod *corev1.Pod) bool {
	return slices.ContainsFunc(spec.Selectors, func(s v1alpha1.FargateProfileSelector) bool {
		return s.Namespace != "" && glob(s.Namespace, pod.Namespace) && hasLabels(s.Labels, pod.Labels)
	})
}

// hasLabels reports whether each wanted pair matches some label.
func hasLabels(wanted map[string]v1alpha1.LabelPattern, labels map[string]string) bool {
	for key, value := range wanted {
		found := false
		for k, v := range labels {
			found = found || glob(key, k) && glob(string(value), v)
		}
		if !found {
			return false
		}
	}
	return true
}

// glob reports whether text matches a pattern in which * stands for any characters and ? for one. It takes at most
// len(pattern) * len(text) steps: on a mismatch it backtracks only to the last *, which then takes one more
// character.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	i, j := 0, 0
	star, after := -1, 0 // the last * seen, and where in the text its remainder was last tried
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, after = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0: // let the * match one character more
			after++
			i, j = star+1, after
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
