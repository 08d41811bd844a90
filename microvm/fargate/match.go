package fargate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// Choice is what becomes of a pod.
type Choice struct {
	Profile *v1alpha1.FargateProfile // nil if no profile has the pod
	Others  []string                 // profiles that select the pod too, by name
	// Note is why a profile that one could expect has not the pod; "" if there is nothing to say. It is a whole sentence.
	Note string
}

// Choose says which profile has a pod, of those that exist when it is created. The first by name has it, or the one that its
// label names if that selects it.
func Choose(profiles []*v1alpha1.FargateProfile, pod *corev1.Pod) Choice {
	var matching []*v1alpha1.FargateProfile
	for _, p := range profiles {
		if p.DeletionTimestamp == nil && Selects(&p.Spec, pod) {
			matching = append(matching, p)
		}
	}
	slices.SortFunc(matching, func(a, b *v1alpha1.FargateProfile) int { return strings.Compare(a.Name, b.Name) })
	wanted := pod.Labels[ProfileLabel]
	if wanted == "" && len(matching) == 0 || never(pod) {
		return Choice{}
	}
	if wanted == "" {
		return chosen(matching, 0)
	}
	at := slices.IndexFunc(matching, func(p *v1alpha1.FargateProfile) bool { return p.Name == wanted })
	switch {
	case at >= 0:
		return chosen(matching, at)
	case slices.ContainsFunc(profiles, func(p *v1alpha1.FargateProfile) bool { return p.Name == wanted }):
		return Choice{Note: "Label " + ProfileLabel + " names FargateProfile " + wanted + ", but none of its selectors fits the pod: the pod gets no microVM"}
	}
	return Choice{Note: "Label " + ProfileLabel + " names FargateProfile " + wanted + ", which does not exist: the pod gets no microVM"}
}

func chosen(matching []*v1alpha1.FargateProfile, at int) Choice {
	c := Choice{Profile: matching[at]}
	for i, p := range matching {
		if i != at {
			c.Others = append(c.Others, p.Name)
		}
	}
	return c
}

// never reports whether no profile may have a pod: one that opted out, belongs to a DaemonSet or to its Node, or is bound.
func never(pod *corev1.Pod) bool {
	if pod.Annotations[ComputeType] == ComputeTypeEC2 || pod.Spec.NodeName != "" {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// Selects reports whether any selector of a profile fits a pod's namespace and labels.
func Selects(spec *v1alpha1.FargateProfileSpec, pod *corev1.Pod) bool {
	return slices.ContainsFunc(spec.Selectors, func(s v1alpha1.FargateProfileSelector) bool {
		return s.Namespace != "" && glob(s.Namespace, pod.Namespace) && hasLabels(s.Labels, pod.Labels)
	})
}

// hasLabels reports whether each of the wanted pairs fits some label.
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
