package web

import (
	"net/http"
	"slices"
	"time"

	kept "github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view"
)

// mostMoving is the maximum number of removed nodes whose planned pod moves are answered.
const mostMoving = 200

// moves answers with where the pods of nodes that commands remove are planned to run.
type moves struct{ s *Server }

// answer returns the planned moves by the NodeClaim of the removed node, from the decision until the node is
// terminated or its command is abandoned: as of t, in milliseconds since 1970, or as of now.
func (x moves) answer(r *http.Request) (any, error) {
	var at time.Time
	if r.URL.Query().Has("t") {
		t, err := number(r, "t")
		if err != nil {
			return nil, err
		}
		at = time.UnixMilli(t)
	}
	if x.s.noDecisions != nil {
		return nil, x.s.noDecisions
	}
	all, _, err := x.s.decided.all(x.s.lifetime(), r.Context())
	if err != nil {
		return nil, err
	}
	happened := func(t time.Time) bool { return at.IsZero() || !t.After(at) }
	out := map[string][]kept.Move{}
	for _, d := range slices.Backward(all) {
		for i := range d.Removed {
			m := &d.Removed[i]
			over := slices.ContainsFunc(d.Outcomes, func(o kept.Outcome) bool {
				return happened(o.Time) && (o.Kind == kept.Kept || o.Kind == kept.Terminated && o.Claim == m.Claim)
			})
			claim := view.Escape(m.Claim)
			if len(m.Moves) > 0 && !over && happened(d.Time) && len(out) < mostMoving && out[claim] == nil {
				out[claim] = m.Moves
			}
		}
	}
	return escaped(out)
}
