// Package engine decides which nodes pending pods need, and which nodes are not worth their price.
//
// It has two entry points. [Provision] assigns every pending pod of a [model.Snapshot] to an existing node or to a
// launch, or gives the [model.Reason] why it cannot. [Disrupt] names the nodes to remove or replace, and says why
// every other candidate stays. Both return a [model.Plan], a proposal that changes nothing; package check verifies it
// before it is applied.
//
// The engine is pure: the same Snapshot and Policy give the same Plan, byte for byte. No client, clock, goroutine,
// random global or map order decides anything, and it imports the standard library alone; internal/arch enforces
// that. A search is bounded in steps, not in time, and a plan that was cut short says so in Plan.Partial.
//
// The disruption methods are in this package, one file each: empty.go, static.go, drift.go, consolidate.go and
// multinode.go. A method proposes Removals and Commands within the budgets. Of the packages below, rules holds the
// scheduling constraints, solve searches for launches, suggest finds the changes that would help a pod, check
// verifies plans, and reason turns Reasons into sentences.
package engine

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// Provision assigns every pending pod to an existing node or to a launch, or gives the Reason why it cannot.
func Provision(s *model.Snapshot, p model.Policy) model.Plan {
	return solve.Provision(s, p).Explained()
}

// Provisioner is Provision in two steps: Decide returns what to launch, and Explain then works out why the other pods
// cannot be placed, which takes longer if there are many hopeless pods and many pools. It makes one plan after
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

// Explain fills in the Reasons of the pods of the latest plan. Remembered Reasons that still hold cost nothing. It
// works out the others while goOn returns true; goOn is called with the number of verdicts so far, each of one pool
// on one shape. The next plan continues where Explain stopped. Explain keeps the verdicts of the pools that come
// closest.
func (x *Provisioner) Explain(plan *model.Plan, goOn func(verdicts int) bool) {
	if x.draft == nil {
		return
	}
	x.draft.Explain(plan, x.memory, goOn)
	x.draft = nil // drafts are large
}
