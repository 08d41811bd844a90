package dra

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
)

// unsupported returns why claims cannot be planned for anywhere; "" if nothing is known against them.
func unsupported(claims []*resourcev1.ResourceClaim) string {
	for _, c := range claims {
		for _, k := range c.Spec.Devices.Constraints {
			if k.MatchAttribute == nil {
				return "constraints other than matchAttribute are not supported"
			}
		}
	}
	return ""
}

// mixed returns why devices of a host cannot be counted under the constraints of a claim: with some of the devices that
// the claim may take, others cannot be taken. "" if they can be counted.
func (s *Set) mixed(h *host, c *resourcev1.ResourceClaim, requests []request,
	results []resourcev1.DeviceRequestAllocationResult,
) string {
	for _, k := range c.Spec.Devices.Constraints {
		devices, taken := sets.New[int](), 0
		for _, r := range results {
			i := slices.IndexFunc(requests, func(q request) bool { return q.ref == r.Request })
			if i >= 0 && covers(&k, r.Request) {
				devices, taken = devices.Union(s.set(h, requests[i].class)), taken+1
			}
		}
		var value *resourcev1.DeviceAttribute
		for i := range devices { // in any order: all are compared with one of them
			other := h.devices[i].attribute(*k.MatchAttribute)
			if other == nil || taken > 1 && value != nil && !equality.Semantic.DeepEqual(value, other) {
				return "devices that differ in " + string(*k.MatchAttribute) + " on one node are not supported"
			}
			value = other
		}
	}
	return ""
}

// covers reports whether the constraint is about a request, or an alternative of one.
func covers(k *resourcev1.DeviceConstraint, ref string) bool {
	main, _, _ := strings.Cut(ref, "/")
	return len(k.Requests) == 0 || slices.Contains(k.Requests, main) || slices.Contains(k.Requests, ref)
}

// attribute returns an attribute of the device by its full name, nil if it has none. Drivers may leave out their own
// domain (Kubernetes API, ResourceSlice: spec.devices.attributes).
func (d *device) attribute(name resourcev1.FullyQualifiedName) *resourcev1.DeviceAttribute {
	key := resourcev1.QualifiedName(name)
	if _, full := d.Attributes[key]; !full {
		key = resourcev1.QualifiedName(strings.TrimPrefix(string(name), d.driver+"/"))
	}
	if value, ok := d.Attributes[key]; ok {
		return &value
	}
	return nil
}
