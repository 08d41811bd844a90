package disrupt

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Search looks for machines that may go in one snapshot, piece by piece. What is the same for each piece is found out once.
type Search struct {
	s      *model.Snapshot
	policy model.Policy
	world  *world // in which nothing was proposed yet; nil if it is to be made
	run    *run   // that has not begun
	known  known
}

// known is what consolidation found out about candidates before any command was proposed.
type known struct {
	candidates, sorted []*model.Node
	worth              worths
}

// serves reports whether it is about these candidates.
func (k *known) serves(candidates []*model.Node, commands int) bool {
	return commands == 0 && len(candidates) > 0 && slices.Equal(candidates, k.candidates)
}

// NewSearch begins a search.
func NewSearch(s *model.Snapshot, policy model.Policy) *Search {
	return &Search{s: s.WithExpected(), policy: policy}
}

// From is what Run gives for the policy with this cursor.
func (x *Search) From(after model.Cursor) model.Plan {
	if x.world == nil {
		x.world = newWorld(x.s, x.policy)
	}
	if x.run == nil {
		x.run = newRun(x.s, x.policy, x.world)
		x.run.known = &x.known
	}
	r := x.run.begin(after, x.world)
	r.empties()
	r.surplus()
	r.staticDrift()
	r.drift()
	r.consolidate()
	if len(r.removals)+len(r.commands) > 0 {
		x.world = nil // it is the one after that
	}
	return r.plan()
}
