// Package engine decides which nodes pending pods need, and which nodes are not worth their price.
//
// It has two entry points. [Provision] answers every pending pod of a [model.Snapshot] with a place on an existing
// node, a launch, or a [model.Reason]. [Disrupt] names the nodes to remove or replace, and says why every other
// candidate stays. Both return a [model.Plan], a proposal that changes nothing; package check judges it before
// anybody applies it.
//
// The engine is pure: the same Snapshot and Policy give the same Plan, byte for byte. No client, clock, goroutine,
// random global or map order decides anything, and it imports the standard library alone; internal/arch enforces
// that. A search is bounded in steps, not in time, and a plan that was cut short says so in Plan.Partial.
//
// Below it: rules holds the scheduling constraints, solve the search for launches, disrupt the disruption methods,
// check the judge, reason the sentences, suggest and query the answers for people, scenario the text form of
// snapshots.
package engine

import (
	"github.com/nodeless/nodeless/engine/disrupt"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// Provision answers every pending pod with a place, a launch or a Reason.
func Provision(s *model.Snapshot, p model.Policy) model.Plan {
	return solve.Provision(s, p).Explained()
}

// Provisioner is Provision in two steps: Decide returns what is launched, and Explain then works out why the other
// pods get nothing, which takes longer if there are many hopeless pods and many pools. It serves one plan after
// another, and must not be used by several goroutines at once.
type Provisioner struct {
	draft  *solve.Draft // of the latest plan
	memory *solve.ReasonCache
}

// NewProvisioner returns a Provisioner that has explained nothing yet.
func NewProvisioner() *Provisioner { return &Provisioner{memory: &solve.ReasonCache{}} }

// Decide is Provision without the Reasons of pods that no pool can launch a node for: their Rule is
// model.RuleUnexplained.
func (x *Provisioner) Decide(s *model.Snapshot, p model.Policy) model.Plan {
	x.draft = solve.Provision(s, p)
	return x.draft.Plan
}

// Explain gives the pods of the latest plan their Reasons. Reasons that it remembers and that still hold cost
// nothing; it works out others as long as goOn, called with the number of verdicts of a pool on a shape so far,
// returns true. The next plan continues. It keeps the verdicts of the pools that come closest.
func (x *Provisioner) Explain(plan *model.Plan, goOn func(verdicts int) bool) {
	if x.draft == nil {
		return
	}
	x.draft.Explain(plan, x.memory, goOn)
	x.draft = nil // drafts are large
}

// StillTrue returns why a command in progress must not be completed; the zero Reason if it may: its nodes still exist
// and may be removed, and each pod that has to leave them has a place on a node that exists or is in flight. Pods of
// drifted nodes may also need nodes that Provision has yet to launch.
func StillTrue(s *model.Snapshot, p model.Policy, c model.Command) model.Reason {
	return disrupt.StillTrue(s, p, c)
}

// Disrupt names the nodes to remove: those that nobody needs at once, and by a Command, once their pods have
// somewhere to go, those that have drifted or whose pods cost less elsewhere. It says about every other candidate why
// it stays; a node on which a pending pod would be placed does. It looks at a limited number of nodes whose pods have
// to move, drifted ones first; Plan.After is where it stopped.
func Disrupt(s *model.Snapshot, p model.Policy) model.Plan {
	return disrupt.Run(s, p)
}

// Search is Disrupt of one snapshot, piece by piece. It computes once what Disrupt would compute anew for each piece.
type Search struct{ of *disrupt.Search }

// NewSearch starts a search. Policy.After is ignored.
func NewSearch(s *model.Snapshot, p model.Policy) Search { return Search{disrupt.NewSearch(s, p)} }

// From is Disrupt with Policy.After set to after. It must not be called by several goroutines at once.
func (x Search) From(after model.Cursor) model.Plan { return x.of.From(after) }
