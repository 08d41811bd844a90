package oracle

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// balance counts each plugin's verdicts on the cases where it had something to decide.
type balance struct {
	of      [][3]int // by plugin, as in judges, then by verdict
	allowed int
	cases   int
}

func newBalance() *balance { return &balance{of: make([][3]int, len(judges))} }

// add counts the judgement on a node.
func (b *balance) add(c *Case, node int, j judgement) {
	for k, v := range j {
		if decides(judges[k], c, c.Nodes[node], v) {
			b.of[k][max(v, accepts)]++
		}
	}
	b.cases++
	if j.allowed() {
		b.allowed++
	}
}

// decides reports whether the plugin had something to decide. Some plugins give a verdict on every pod and node, and
// VolumeRestrictions on no pod that it accepts.
func decides(plugin string, c *Case, n *corev1.Node, v verdict) bool {
	switch plugin {
	case names.NodeUnschedulable:
		return n.Spec.Unschedulable
	case names.TaintToleration:
		return slices.ContainsFunc(n.Spec.Taints,
			func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
	case names.NodeResourcesFit:
		return n.Status.Allocatable.Cpu().CmpInt64(64) < 0
	case names.VolumeRestrictions:
		return v == rejects || slices.ContainsFunc(c.Pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil &&
				slices.ContainsFunc(c.Claims, func(claim *corev1.PersistentVolumeClaim) bool {
					return claim.Namespace == c.Pod.Namespace && claim.Name == v.PersistentVolumeClaim.ClaimName &&
						claim.Spec.AccessModes[0] == corev1.ReadWriteOncePod
				})
		})
	}
	return v != indifferent
}

func (b *balance) plus(o *balance) {
	for k := range b.of {
		for v := range b.of[k] {
			b.of[k][v] += o.of[k][v]
		}
	}
	b.allowed += o.allowed
	b.cases += o.cases
}

func (b *balance) String() string {
	var out strings.Builder
	line := func(name string, accepts, rejects int) {
		fmt.Fprintf(&out, "%-20s %9d accepts %9d rejects", name, accepts, rejects)
		if all := accepts + rejects; all > 0 {
			fmt.Fprintf(&out, " (%d %%)", 100*rejects/all)
		}
		out.WriteByte('\n')
	}
	for k, name := range judges {
		if name == names.NodeName {
			continue // a pod with a nodeName is bound
		}
		line(name, b.of[k][accepts], b.of[k][rejects])
	}
	line("all together", b.allowed, b.cases-b.allowed)
	return out.String()
}
