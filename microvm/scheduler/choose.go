package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// candidate is a host and what is already reserved on it.
type candidate struct {
	microvm.Description
	used fargate.Size
	pods int
}

// choose returns the host for a pod: of the hosts that fit, the one with the largest share of its memory left, ties
// by name. If no host fits, why gives the reason of each.
func choose(hosts []candidate, spec *v1alpha1.FargateProfileSpec, pod *corev1.Pod, size fargate.Size) (name,
	why string,
) {
	if len(hosts) == 0 {
		return "", "no microVM host is registered with the cluster"
	}
	var fits []candidate
	var reasons []string
	for _, h := range hosts {
		if r := unfit(h, spec, pod, size); r != "" {
			reasons = append(reasons, h.Name+": "+r)
		} else {
			fits = append(fits, h)
		}
	}
	if len(fits) == 0 {
		slices.Sort(reasons)
		const most = 5
		if more := len(reasons) - most; more > 0 {
			reasons = append(reasons[:most], fmt.Sprintf("%d more hosts", more))
		}
		return "", noCapacity + " (" + strings.Join(reasons, "; ") + ")"
	}
	best := slices.MinFunc(fits, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.freeShare(size), a.freeShare(size)), cmp.Compare(a.Name, b.Name))
	})
	return best.Name, ""
}

// noCapacity is Fargate's message when it has no capacity (containers-roadmap #2034).
const noCapacity = "Fargate capacity is unavailable at this time. Please try again later or in a different " +
	"availability zone"

// freeShare returns the share of its memory that a host has left after adding a microVM, in millionths.
func (c *candidate) freeShare(size fargate.Size) int64 {
	left := c.Capacity.MemoryBytes - c.used.MemoryBytes - size.MemoryBytes
	return int64(float64(left) / float64(c.Capacity.MemoryBytes) * 1e6)
}

// unfit returns why a host cannot take a pod now, "" if it can.
func unfit(h candidate, spec *v1alpha1.FargateProfileSpec, pod *corev1.Pod, size fargate.Size) string {
	if !h.Ready {
		return "it is not ready: " + h.Message
	}
	if h.Unschedulable {
		return "it is cordoned (spec.unschedulable)"
	}
	if why := wrongEngine(h.Engine, spec.Engine); why != "" {
		return why
	}
	if !allows(pod, []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}, h.Zone) {
		return fmt.Sprintf("the pod requires another zone than %q", h.Zone)
	}
	if !allows(pod, []string{corev1.LabelArchStable}, h.Arch) {
		return "the pod requires another architecture than " + h.Arch
	}
	switch free := h.Capacity.MilliCPU - h.used.MilliCPU; {
	case free < size.MilliCPU:
		return fmt.Sprintf("it has %dm of CPU left, the pod needs %dm", max(free, 0), size.MilliCPU)
	case h.Capacity.MemoryBytes-h.used.MemoryBytes < size.MemoryBytes:
		return fmt.Sprintf("it has %dMi of memory left, the pod needs %dMi",
			max(h.Capacity.MemoryBytes-h.used.MemoryBytes, 0)>>20, size.MemoryBytes>>20)
	case h.MaxPods > 0 && h.pods >= h.MaxPods:
		return fmt.Sprintf("it already has %d pods, its maximum", h.pods)
	}
	return ""
}

// wrongEngine returns why a host's engine does not satisfy a profile, "" if it does. Namespaces are not virtual
// machines: only a profile that requests them gets them.
func wrongEngine(have string, want v1alpha1.Engine) string {
	switch {
	case want == v1alpha1.EngineAuto || want == "":
		if have == string(v1alpha1.EngineNamespace) {
			return "it has no virtual machines, and the profile does not ask for engine Namespace"
		}
	case have != string(want) && want == v1alpha1.EngineNamespace:
		return fmt.Sprintf("its engine is %s, the profile requests Namespace: leave spec.engine out, or start the host "+
			"with --engine namespace", have)
	case have != string(want):
		return fmt.Sprintf("its engine is %s, the profile requests %s", have, want)
	}
	return ""
}

// allows reports whether a pod's nodeSelector and required node affinity allow a value of these labels, which are
// synonyms. Like Fargate, it ignores all other terms.
func allows(pod *corev1.Pod, keys []string, value string) bool {
	for _, key := range keys {
		if want, ok := pod.Spec.NodeSelector[key]; ok && want != value {
			return false
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) == 0 || slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			if !slices.Contains(keys, r.Key) {
				return false
			}
			has := slices.Contains(r.Values, value)
			return r.Operator == corev1.NodeSelectorOpIn && !has || r.Operator == corev1.NodeSelectorOpNotIn && has ||
				r.Operator == corev1.NodeSelectorOpDoesNotExist
		})
	})
}
