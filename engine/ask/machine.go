package ask

import (
	"slices"

	"github.com/nodeless/nodeless/engine/methods"
	"github.com/nodeless/nodeless/engine/model"
)

// mostBlockers is how many reasons are looked for; a machine may have hundreds of pods that must not be disrupted.
const mostBlockers = 12

// Machine is what becomes of a machine, and what keeps it.
type Machine struct {
	Node *model.Node
	// Blockers are why it stays, each as it is once those before it are out of the way. The first is what the engine says now. The
	// last cannot be thought away, or nothing is left that keeps it: then Removal or Command is what would become of it.
	Blockers []model.Reason
	More     bool // there are further blockers
	Removal  *model.Removal
	Command  *model.Command
	World    *model.Snapshot // in which Removal and Command were decided: without Blockers
}

// OfMachine asks what becomes of a machine, and whether there is one of that name. Of machines that are not ours, or that are going
// already, nothing is decided.
func OfMachine(s *model.Snapshot, policy model.Policy, node string) (Machine, bool) {
	i := slices.IndexFunc(s.Nodes, func(n model.Node) bool { return n.Name == node })
	if i < 0 {
		return Machine{}, false
	}
	out := Machine{Node: &s.Nodes[i], World: s}
	plan := methods.Run(s, policy)
	for range mostBlockers {
		reason, goes := out.read(&plan, node)
		if goes || reason.Rule == "" {
			return out, true
		}
		if reason.Rule != model.RuleSteps {
			out.Blockers = append(out.Blockers, reason)
			next, changed, ok := lift(out.World, policy, node, &reason)
			if !ok {
				return out, true
			}
			out.World, policy = next, changed
		}
		plan = methods.Run(only(out.World, node), policy) // alone it is looked at for sure
	}
	out.More = true
	return out, true
}

// read finds the machine in a plan: why it stays, or that it goes.
func (m *Machine) read(plan *model.Plan, node string) (model.Reason, bool) {
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

// only is the snapshot in which no method takes another machine: pods may still move there.
func only(s *model.Snapshot, node string) *model.Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i := range out.Nodes {
		if n := &out.Nodes[i]; n.Name != node {
			n.DoNotDisrupt = true
		}
	}
	return &out
}
