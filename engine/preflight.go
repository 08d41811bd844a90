package engine

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// spared returns the snapshot in which moved pods take no slots without an address, and no node's last free slots: a
// DaemonSet that rolls or comes later needs them.
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

// unsettled returns why no pods are moved now by a method that could wait; the zero Reason if they may be. What makes
// room for a DaemonSet's pod does not wait: that of the VPC CNI may be the one that has none.
func (r *run) unsettled(how model.Method) model.Reason {
	if r.policy.Preflight != model.Enforce || r.s.Unsettled == "" || how == model.CrowdedOut {
		return model.Reason{}
	}
	return model.Reason{Rule: model.RulePreflight, Detail: r.s.Unsettled}
}
