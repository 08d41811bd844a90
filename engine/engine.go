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
// The disruption methods are in this package, one file each: empty.go, static.go, drift.go, consolidate.go and
// multinode.go. A method proposes Removals and Commands within the budgets. Below the package, rules holds the
// scheduling constraints, solve the search for launches, suggest the changes that would help a pod. Beside it, check
// holds the judge, reason the sentences.
package engine

import (
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
