package query

import (
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// maxBlockers bounds the number of reasons: a node may have hundreds of pods that must not be disrupted.
const maxBlockers = 12

// Node says what happens to a node, and what keeps it.
type Node struct {
	Node *model.Node
	// Blockers are the reasons why the node stays, each found after lifting those before it. The first is the engine's
	// current Reason. Either the last cannot be lifted, or nothing else keeps the node, and Removal or Command is what
	// would happen to it.
	Blockers []model.Reason
	More     bool // there are further blockers
	Removal  *model.Removal
	Command  *model.Command
	Snapshot *model.Snapshot // on which Removal and Command were decided: without Blockers
}

// Decider is engine.Disrupt.
type Decider func(*model.Snapshot, model.Policy) model.Plan

// OfNode returns what happens to a node, and whether a node with that name exists. Nothing is decided about nodes
// that are unmanaged or being deleted.
func OfNode(s *model.Snapshot, policy model.Policy, node string, disrupt Decider) (Node, bool) {
	i := s.NodeIndex(node)
	if i < 0 {
		return Node{}, false
	}
	out := Node{Node: &s.Nodes[i], Snapshot: s}
	group := []string{node} // nodes that the engine may consider for removal
	plan := disrupt(s, policy)
	for range maxBlockers {
		reason, goes := out.read(&plan, node)
		switch {
		case goes || reason.Rule == "":
			return out, true
		case reason.Rule == model.RuleSteps:
			plan = disrupt(only(out.Snapshot, group), policy) // the only candidate is certainly considered
			continue
		case len(reason.Group) > 0:
			group = reason.Group
		}
		out.Blockers = append(out.Blockers, reason)
		next, changed, ok := lift(out.Snapshot, policy, node, &reason)
		if !ok {
			if next, plan, ok = out.unbudgeted(policy, disrupt, &reason); !ok {
				return out, true
			}
			out.Snapshot = next
			continue
		}
		out.Snapshot, policy = next, changed
		if reason.Until.IsZero() {
			plan = disrupt(only(out.Snapshot, group), policy)
		} else {
			plan = disrupt(out.Snapshot, policy) // the time has come for other nodes, too
		}
	}
	out.More = true
	return out, true
}

// unbudgeted handles a node that has no cheaper replacement on its own. It looks for a group with which the node
// would be replaced if its pool's budget allowed it. It adds that budget to the blockers, and returns the snapshot
// without the budget and the plan for that snapshot.
func (m *Node) unbudgeted(
	policy model.Policy, disrupt Decider, alone *model.Reason,
) (*model.Snapshot, model.Plan, bool) {
	switch alone.Rule {
	case model.RuleNotCheaper, model.RuleMoreNodes, model.RuleNoPlace, model.RuleFragile:
	default:
		return nil, model.Plan{}, false
	}
	pool := m.Snapshot.Pool(m.Node.Pool)
	if pool == nil || pool.Disruption.AllowedUnderused >= len(m.Snapshot.Nodes) {
		return nil, model.Plan{}, false
	}
	budget := model.Reason{
		Rule: model.RuleBudget, Object: m.Node.Pool,
		Detail: strconv.Itoa(max(pool.Disruption.AllowedUnderused, 0)),
	}
	next, _, ok := lift(m.Snapshot, policy, m.Node.Name, &budget)
	if !ok {
		return nil, model.Plan{}, false
	}
	plan := disrupt(next, policy)
	var there Node
	if reason, goes := there.read(&plan, m.Node.Name); !goes {
		budget.Group = reason.Group
	} else if there.Command != nil && len(there.Command.Removals) > 1 {
		for _, r := range there.Command.Removals {
			budget.Group = append(budget.Group, r.Node)
		}
	}
	if len(budget.Group) == 0 {
		return nil, model.Plan{}, false
	}
	m.Blockers = append(m.Blockers, budget)
	return next, plan, true
}

// read finds the node in a plan, and returns why it stays, or that it is removed.
func (m *Node) read(plan *model.Plan, node string) (model.Reason, bool) {
	for i := range plan.Removals {
		if plan.Removals[i].Node == node {
			m.Removal = &plan.Removals[i]
			return model.Reason{}, true
		}
	}
	for i := range plan.Commands {
		if slices.ContainsFunc(plan.Commands[i].Removals, func(r model.Removal) bool { return r.Node == node }) {
			m.Command = &plan.Commands[i]
			return model.Reason{}, true
		}
	}
	for i := range plan.Kept {
		if plan.Kept[i].Node == node {
			return plan.Kept[i].Reason, false
		}
	}
	return model.Reason{}, false
}

// only returns the snapshot in which no method removes any other node; pods may still move to the others.
func only(s *model.Snapshot, nodes []string) *model.Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i := range out.Nodes {
		if n := &out.Nodes[i]; !slices.Contains(nodes, n.Name) {
			n.DoNotDisrupt = true
		}
	}
	return &out
}
