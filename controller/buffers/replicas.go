package buffers

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
)

// maxReplicas bounds one buffer: a percentage or a limit with too many digits must not bury the cluster in
// placeholders.
const maxReplicas = 10_000

// replicas returns the number of pods for which capacity is kept: the larger of replicas and percentage, bounded by
// the limits (sigs.k8s.io/karpenter/pkg/controllers/capacitybuffer; the field's comment in the CRD says the smaller,
// the code of all implementations uses the larger). scale is the replica count of the referenced workload, nil if
// there is none. If the number is 0, the string says why.
func replicas(spec *autoscaling.CapacityBufferSpec, scale *int32, requests corev1.ResourceList) (int32, string) {
	wanted, sized := int64(0), false
	if spec.Replicas != nil {
		wanted, sized = int64(*spec.Replicas), true
	}
	if spec.Percentage != nil && scale != nil {
		wanted, sized = max(wanted, share(*scale, *spec.Percentage)), true
	}
	limit, limited := within(corev1.ResourceList(spec.Limits), requests)
	why := "spec.replicas and spec.percentage ask for none"
	switch {
	case !sized && !limited && len(spec.Limits) > 0:
		why = fmt.Sprintf("spec.limits names no resource that a pod requests (%s); name one, or set spec.replicas",
			named(requests))
	case !sized && !limited:
		why = "none of spec.replicas, spec.percentage and spec.limits says how many; set one"
	case limited && (!sized || limit < wanted):
		wanted = limit
		why = fmt.Sprintf("spec.limits holds no pod of %s; raise it", said(requests))
	}
	if wanted > 0 {
		why = ""
	}
	return int32(min(max(wanted, 0), maxReplicas)), why
}

// share returns a percentage of replicas, rounded up.
func share(scale, percentage int32) int64 {
	return (int64(max(scale, 0))*int64(max(percentage, 0)) + 99) / 100
}

// within returns how many pods with these requests fit within the limits, and whether the limits restrict them at
// all.
func within(limits, requests corev1.ResourceList) (int64, bool) {
	least, limited := int64(math.MaxInt64), false
	for name, limit := range limits {
		request, asked := requests[name]
		if !asked || request.Sign() <= 0 {
			continue
		}
		limited = true
		least = min(least, times(limit, request))
	}
	return least, limited
}

// times returns how often one, above 0, fits into in; approximately for amounts larger than any node.
func times(in, one resource.Quantity) int64 {
	const exact = math.MaxInt64 / 1000
	if in.CmpInt64(exact) < 0 && one.CmpInt64(exact) < 0 {
		return max(in.MilliValue(), 0) / max(one.MilliValue(), 1)
	}
	return int64(min(max(in.AsApproximateFloat64()/one.AsApproximateFloat64(), 0), maxReplicas))
}

// named lists the names of resources; said also lists their amounts.
func named(list corev1.ResourceList) string {
	if len(list) == 0 {
		return "it requests nothing"
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		out = append(out, string(name))
	}
	return strings.Join(out, ", ")
}

func said(list corev1.ResourceList) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out = append(out, string(name)+" "+q.String())
	}
	return strings.Join(out, ", ")
}
