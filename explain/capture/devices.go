package capture

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NoDevices reports whether it is unknown where claims of dynamic resource allocation can be met: one of its kinds is
// a gap. Like the controller, which must be able to read them all, a Cluster then does not plan for pods with claims.
func (c *Cluster) NoDevices() bool {
	return slices.ContainsFunc(c.Gaps(), func(gap error) bool {
		return slices.ContainsFunc(allocations, func(k kind) bool { return strings.Contains(gap.Error(), k.name()) })
	})
}

// ignoreDevices tells the State what NoDevices reports, once everything was read or may be watched.
func ignoreDevices(c *Cluster) {
	if c.dumped != nil && c.dumped.begun == nil { // a capture names its gaps itself
		for _, k := range allocations {
			if of := reflect.TypeOf(k.object); c.dumped.needs[of] && !c.dumped.kinds[of] {
				c.gaps = append(c.gaps, fmt.Errorf("the file has no %s, so claims of its pods are not judged", k.name()))
			}
		}
	}
	if c.NoDevices() {
		c.State.IgnoreDevices()
	}
}

// note records which kinds a dump has, and which its pods need for their claims: kubectl prints none of a kind that
// has no objects.
func (d *dump) note(o client.Object) {
	d.kinds[reflect.TypeOf(o)] = true
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	for _, claim := range pod.Spec.ResourceClaims {
		d.needs[reflect.TypeFor[*resourcev1.DeviceClass]()] = true
		if name, made, err := resourceclaim.Name(pod, &claim); err != nil || !made {
			d.needs[reflect.TypeFor[*resourcev1.ResourceClaimTemplate]()] = true
		} else if name != nil {
			d.needs[reflect.TypeFor[*resourcev1.ResourceClaim]()] = true
		}
	}
}
