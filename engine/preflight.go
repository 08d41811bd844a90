package engine

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// spared returns the snapshot without the pod slots that moved pods must not take: those without an IP address, and
// the last free slots of larger nodes, which a DaemonSet that is rolled out or added later needs.
func spared(s *model.Snapshot) *model.Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		spare := n.Unaddressed
		if n.Allocatable[model.Pods] > 4*rules.SpareSlots {
			spare += rules.SpareSlots
		}
		n.Allocatable[model.Pods] -= min(max(n.Free()[model.Pods], 0), spare)
	}
	return &out
}

// unsettled returns why the method must not move pods now, or the zero Reason if it may. Making room for a
// DaemonSet's pod does not wait: the pod without room may be the VPC CNI's.
func (r *run) unsettled(how model.Method) model.Reason {
	if r.policy.Preflight != model.Enforce || r.s.Unsettled == "" || how == model.CrowdedOut {
		return model.Reason{}
	}
	return model.Reason{Rule: model.RulePreflight, Detail: r.s.Unsettled}
}
