// Package engine decides: which machines pending pods need, and which machines are not worth their price.
//
// It is pure. The same Snapshot and Policy give the same Plan, byte for byte: no client, clock, goroutine, random
// global or map order decides anything, and only the standard library is imported. internal/arch holds it to that.
package engine

import (
	"github.com/nodeless/nodeless/engine/disrupt"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// Provision gives every pending pod a place, a launch or a Reason.
func Provision(s *model.Snapshot, p model.Policy) model.Plan {
	return solve.Provision(s, p).Explained()
}

// Provisioner is Provision in two steps, again and again: first what is launched, then why the other pods get nothing, which takes longer
// where many pods without hope meet many pools. It is not to be used by several at once.
type Provisioner struct {
	draft  *solve.Draft // the newest
	memory *solve.ReasonCache
}

// NewProvisioner is one that has explained nothing yet.
func NewProvisioner() *Provisioner { return &Provisioner{memory: &solve.ReasonCache{}} }

// Decide is Provision but for the Reasons of pods that no pool can launch a node for: their Rule is model.RuleUnexplained.
func (x *Provisioner) Decide(s *model.Snapshot, p model.Policy) model.Plan {
	x.draft = solve.Provision(s, p)
	return x.draft.Plan
}

// Explain gives the pods of the newest plan their Reasons: those that it remembers and are still true, and others as long as goOn, told how
// many verdicts of a pool on a shape of pods that took so far, lets it; the next plan's goes on. It keeps the verdicts of the pools that
// come nearest.
func (x *Provisioner) Explain(plan *model.Plan, goOn func(verdicts int) bool) {
	if x.draft == nil {
		return
	}
	x.draft.Explain(plan, x.memory, goOn)
	x.draft = nil // it is large
}

// StillTrue says why a command that is under way must not be carried out to its end; the zero Reason if it may: its machines are
// there and may go, and each pod that has to leave them has its place on a machine that is there or on its way. Pods of drifted
// machines may also need machines that Provision is yet to launch.
func StillTrue(s *model.Snapshot, p model.Policy, c model.Command) model.Reason {
	return disrupt.StillTrue(s, p, c)
}

// Disrupt names the machines that should go: at once, those that nobody needs; by a Command, once their pods have somewhere to
// go, those that have drifted or whose pods cost less elsewhere. It says of every other candidate why it stays. A machine on
// which a pending pod would be placed stays. Of machines whose pods have to move it looks at so many at a time, drifted ones
// first: Plan.After is where it stopped.
func Disrupt(s *model.Snapshot, p model.Policy) model.Plan {
	return disrupt.Run(s, p)
}

// Search is Disrupt of one snapshot piece by piece: what Disrupt would find out for each piece anew is found out once.
type Search struct{ of *disrupt.Search }

// NewSearch begins one. The policy's After does not matter.
func NewSearch(s *model.Snapshot, p model.Policy) Search { return Search{disrupt.NewSearch(s, p)} }

// From is Disrupt with Policy.After. It is not to be called by several at once.
func (x Search) From(after model.Cursor) model.Plan { return x.of.From(after) }
