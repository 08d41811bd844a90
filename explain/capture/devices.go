package capture

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NoDevices reports whether it is unknown where claims of dynamic resource allocation can be met: one of its kinds
// could not be read, or a dump that uses them lacks one. Like the controller, which must be able to read them all, a
// Cluster then does not plan for pods with claims.
func (c *Cluster) NoDevices() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	unread := func(k kind) bool {
		return slices.ContainsFunc(c.gaps, func(gap error) bool { return strings.Contains(gap.Error(), k.name()) })
	}
	return slices.ContainsFunc(allocations, unread) || c.dumped != nil && c.dumped.lacksDevices()
}

// ignoreDevices tells the State what NoDevices reports, once everything was read or may be watched.
func ignoreDevices(c *Cluster) {
	if c.NoDevices() {
		c.State.IgnoreDevices()
	}
}

// note records which kinds a dump has, and whether its pods have claims.
func (d *dump) note(o client.Object) {
	d.kinds[reflect.TypeOf(o)] = true
	pod, ok := o.(*corev1.Pod)
	d.claims = d.claims || ok && len(pod.Spec.ResourceClaims) > 0
}

// lacksDevices reports whether a dump lacks a kind of dynamic resource allocation, although it has another one or pods
// with claims. A capture has all objects that there were, except its gaps.
func (d *dump) lacksDevices() bool {
	has := func(k kind) bool { return d.kinds[reflect.TypeOf(k.object)] }
	lacks := func(k kind) bool { return !has(k) }
	return d.begun == nil && (d.claims || slices.ContainsFunc(allocations, has)) && slices.ContainsFunc(allocations, lacks)
}
