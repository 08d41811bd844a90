package engine

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// StillTrue returns why a command in progress must not be completed, or the zero Reason if it may be: its nodes still
// exist and may be removed, and every pod that has to leave them fits on a node that exists or is in flight. Unless
// the command consolidates, pods may also go to nodes that Provision has yet to launch. Pods of static pools need not
// fit: such a pool keeps its size whatever runs there.
func StillTrue(s *model.Snapshot, policy model.Policy, c model.Command) model.Reason {
	victims, static := map[string]bool{}, map[string]bool{}
	for _, r := range c.Removals {
		i := s.NodeIndex(r.Node)
		if i < 0 || s.Nodes[i].Claim != r.Claim {
			return model.Reason{Rule: model.RuleGone, Object: r.Node}
		}
		n := &s.Nodes[i]
		if s.Pool(n.Pool) == nil {
			// the pool's nodes are deleted with it, and so would be the launched ones
			return model.Reason{Rule: model.RuleNoPool, Object: n.Pool}
		}
		if reason := protected(n, c.Method == model.Drifted); reason.Rule != "" {
			return reason
		}
		if reason := overtaken(s, n, c.Method); reason.Rule != "" {
			return reason
		}
		victims[r.Node], static[r.Node] = true, s.Pool(n.Pool).Static
	}
	overlay := s.WithExpected().Draining(victims)
	leaving := func(p model.Pod) bool { return victims[p.From] && !static[p.From] }
	if !slices.ContainsFunc(overlay.Pending, leaving) {
		return model.Reason{}
	}
	draft := solve.ProvisionPods(overlay, policy)
	return unserved(overlay, draft, c.Method != model.Underutilized, leaving)
}

// unserved names one of the pods that a plan cannot place or, unless launchesDo, places only on a node yet to be
// launched; the zero Reason if there is none.
func unserved(s *model.Snapshot, draft *solve.Draft, launchesDo bool, of func(model.Pod) bool) model.Reason {
	those := map[model.PodKey]bool{}
	for _, p := range s.Pending {
		if of(p) {
			those[p.PodKey] = true
		}
	}
	plan := &draft.Plan
	for _, u := range plan.Unplaced {
		if those[u.Pod] {
			u.Reason = draft.ExplainOnly(u.Pod)
			return noPlace(u)
		}
	}
	for i := range plan.Launches {
		for _, k := range plan.Launches[i].Pods {
			if those[k] && !launchesDo {
				return model.Reason{Rule: model.RuleMoreNodes, Object: podName(k), Detail: "1"}
			}
		}
	}
	return model.Reason{}
}

func noPlace(u model.Unplaced) model.Reason {
	return model.Reason{
		Rule: model.RuleNoPlace, Object: podName(u.Pod), Detail: string(u.Reason.Rule),
		Pools: u.Reason.Pools,
	}
}

// protected returns why the node or a pod on it must not be disrupted. If the node has a deadline, eventual methods
// do not wait for its pods.
func protected(n *model.Node, eventual bool) model.Reason {
	if n.DoNotDisrupt {
		return model.Reason{Rule: model.RuleDoNotDisrupt, Object: "node " + n.Name}
	}
	if eventual && n.Deadline {
		return model.Reason{}
	}
	for i := range n.Pods {
		switch p := &n.Pods[i]; {
		case !p.Protected():
		case p.DoNotDisrupt:
			return model.Reason{Rule: model.RuleDoNotDisrupt, Object: podName(p.PodKey)}
		default:
			return model.Reason{Rule: model.RuleEvictionBlocked, Object: podName(p.PodKey), Detail: p.EvictionBlocked}
		}
	}
	return model.Reason{}
}

func podName(k model.PodKey) string { return "pod " + k.Namespace + "/" + k.Name }
