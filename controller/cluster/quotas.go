package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// quotas are the ResourceQuotas, which cap how many more pods may be created.
type quotas struct {
	objects *objects
	known   table[*corev1.ResourceQuota]
}

// rooms is what quotas leave, by quota. It is computed when it is needed for a pod of the namespace.
type rooms struct {
	*quotas
	left map[*corev1.ResourceQuota]corev1.ResourceList
}

func (qs *quotas) rooms() *rooms {
	return &rooms{quotas: qs, left: map[*corev1.ResourceQuota]corev1.ResourceList{}}
}

// take returns how many of n more pods like this one their namespace's quotas allow, and counts them as used.
func (r *rooms) take(like *corev1.Pod, n int) int {
	if like == nil {
		return 0
	}
	var capping []*corev1.ResourceQuota
	for key, q := range r.known.live {
		if key.Namespace == like.Namespace && inScope(q, like) {
			capping = append(capping, q)
		}
	}
	if len(capping) == 0 {
		return n
	}
	each := quotaUsage(like)
	for _, q := range capping {
		for name, left := range r.of(q) {
			if one := each[name]; one.Sign() > 0 {
				n = min(n, int(max(left.AsApproximateFloat64()/one.AsApproximateFloat64()+1e-9, 0)))
			}
		}
	}
	for _, q := range capping {
		for name, left := range r.left[q] {
			one := each[name]
			one.Mul(int64(n))
			left.Sub(one)
			r.left[q][name] = left
		}
	}
	return n
}

// of returns what the quota leaves. Its usage is counted from the known pods, not read from its status, which arrives
// through another watch, ahead of the pods or behind them.
func (r *rooms) of(q *corev1.ResourceQuota) corev1.ResourceList {
	if left, ok := r.left[q]; ok {
		return left
	}
	left := q.Spec.Hard.DeepCopy()
	for key, pod := range r.objects.pods.live {
		if key.Namespace != q.Namespace || !inScope(q, pod) {
			continue
		}
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for name, used := range quotaUsage(pod) {
			if have, ok := left[name]; ok && (!ended || name == countPods) {
				have.Sub(used)
				left[name] = have
			}
		}
	}
	r.left[q] = left
	return left
}

// countPods is the quota of pods that exist. All other quotas leave out those that have ended.
const countPods corev1.ResourceName = "count/pods"

// quotaUsage returns what a pod counts against quotas (kubernetes.io/docs/concepts/policy/resource-quotas).
func quotaUsage(pod *corev1.Pod) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	out := corev1.ResourceList{corev1.ResourcePods: one, countPods: one}
	for name, n := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		out[corev1.DefaultResourceRequestsPrefix+name] = n
		if !strings.Contains(string(name), "/") {
			out[name] = n
		}
	}
	for name, n := range resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}) {
		out["limits."+name] = n
	}
	return out
}

// inScope reports whether the quota counts the pod. Scopes that matchesScope cannot decide count none.
func inScope(q *corev1.ResourceQuota, pod *corev1.Pod) bool {
	terms := make([]corev1.ScopedResourceSelectorRequirement, 0, len(q.Spec.Scopes))
	for _, scope := range q.Spec.Scopes {
		terms = append(terms, corev1.ScopedResourceSelectorRequirement{
			ScopeName: scope, Operator: corev1.ScopeSelectorOpExists,
		})
	}
	if q.Spec.ScopeSelector != nil {
		terms = append(terms, q.Spec.ScopeSelector.MatchExpressions...)
	}
	for i := range terms {
		if !matchesScope(&terms[i], pod) {
			return false
		}
	}
	return true
}

func matchesScope(t *corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	bestEffort := len(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) == 0 &&
		len(resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})) == 0
	switch t.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		class := pod.Spec.PriorityClassName
		switch t.Operator {
		case corev1.ScopeSelectorOpIn:
			return slices.Contains(t.Values, class)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(t.Values, class)
		case corev1.ScopeSelectorOpDoesNotExist:
			return class == ""
		}
		return class != ""
	}
	return false
}
