package disrupt

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Search looks for nodes to remove in one snapshot, piece by piece. It computes once what is the same for each piece.
type Search struct {
	s         *model.Snapshot
	policy    model.Policy
	projected *projection // before anything is proposed; nil if it must be made
	run       *run        // not begun
	known     known
}

// known is what consolidation found out about candidates before any command was proposed.
type known struct {
	candidates, sorted []*model.Node
	worth              worths
}

// serves reports whether it applies to these candidates.
func (k *known) serves(candidates []*model.Node, commands int) bool {
	return commands == 0 && len(candidates) > 0 && slices.Equal(candidates, k.candidates)
}

// NewSearch starts a search.
func NewSearch(s *model.Snapshot, policy model.Policy) *Search {
	return &Search{s: s.WithExpected(), policy: policy}
}

// From returns what Run returns for the policy with this cursor.
func (x *Search) From(after model.Cursor) model.Plan {
	if x.projected == nil {
		x.projected = newProjection(x.s, x.policy)
	}
	if x.run == nil {
		x.run = newRun(x.s, x.policy, x.projected)
		x.run.known = &x.known
	}
	r := x.run.begin(after, x.projected)
	r.empties()
	d := &drift{r}
	s := &static{d}
	s.surplus()
	s.staticDrift()
	d.drift()
	r.consolidate()
	if len(r.removals)+len(r.commands) > 0 {
		x.projected = nil // it is the one after that
	}
	return r.plan()
}
