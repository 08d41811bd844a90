package query

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// lift returns the snapshot and the policy in which one reason to keep a node no longer applies. It returns false if
// the reason cannot be lifted because it depends on pods, prices, or nodes in flight.
func lift(s *model.Snapshot, policy model.Policy, node string, r *model.Reason) (*model.Snapshot, model.Policy, bool) {
	out := *s
	out.Nodes, out.Pools = slices.Clone(s.Nodes), slices.Clone(s.Pools)
	n := &out.Nodes[out.NodeIndex(node)]
	p := cmp.Or(out.Pool(n.Pool), &model.Pool{})
	d := &p.Disruption
	switch r.Rule {
	case model.RuleDoNotDisrupt:
		if !n.DoNotDisrupt {
			return &out, policy, free(n, func(b *model.BoundPod) bool { return b.DoNotDisrupt && called(b) == r.Object })
		}
		n.DoNotDisrupt = false
	case model.RuleEvictionBlocked:
		return &out, policy, free(n, func(b *model.BoundPod) bool { return b.EvictionBlocked != "" && called(b) == r.Object })
	case model.RuleBudget:
		d.AllowedEmpty, d.AllowedDrifted, d.AllowedUnderused = math.MaxInt32, math.MaxInt32, math.MaxInt32
	case model.RuleTooYoung, model.RuleNeeded:
		if r.Until.IsZero() {
			return nil, policy, false
		}
		out.Now = r.Until
	case model.RulePayback:
		if r.Until.IsZero() {
			policy.MovePrice = 0
			n.Pods = slices.Clone(n.Pods)
			for i := range n.Pods {
				n.Pods[i].Created = time.Time{} // pods of unknown age count as old
			}
		} else {
			out.Now = r.Until
		}
	case model.RuleSpotToSpot:
		if r.Detail != "" {
			return nil, policy, false
		}
		policy.SpotToSpot = true
	default:
		return &out, policy, liftPolicy(d, r.Rule)
	}
	return &out, policy, true
}

// liftPolicy removes one setting from a pool's disruption policy; false if the rule is not such a setting.
func liftPolicy(d *model.DisruptionPolicy, rule model.Rule) bool {
	switch rule {
	case model.RuleNever:
		d.Never, d.ConsolidateAfter = false, 0
	case model.RuleWhenEmpty:
		d.WhenEmptyOnly = false
	case model.RuleBalanced:
		d.Balanced = false
	case model.RuleWindow:
		d.Window = model.Window{}
	case model.RuleUnclear:
		d.Unclear, d.Window = "", model.Window{}
	case model.RuleSmallSaving:
		d.MinSaving, d.MinSavingPercent = 0, 0
	case model.RuleJob:
		d.WaitForJobs = false
	default:
		return false
	}
	return true
}

// free removes the protection of the node's pods that satisfy of, and reports whether there were any.
func free(n *model.Node, of func(*model.BoundPod) bool) bool {
	n.Pods = slices.Clone(n.Pods)
	found := false
	for i := range n.Pods {
		if of(&n.Pods[i]) {
			n.Pods[i].DoNotDisrupt, n.Pods[i].EvictionBlocked, found = false, "", true
		}
	}
	return found
}

// called returns the pod's name as used in Reasons.
func called(p *model.BoundPod) string { return "pod " + p.Namespace + "/" + p.Name }
