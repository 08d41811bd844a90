package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// 80 of 240 pods end. Nodes that are no longer worth their price are then removed while other evicted pods wait for
// their replacements: capacity for these is not given away a second time, so hardly any node is launched for a
// replacement that found none.
func TestRoomIsKeptForSuccessors(t *testing.T) {
	var rows strings.Builder
	for i := range 240 {
		life := 400.0
		if i%3 == 0 {
			life = 120 + float64(i)/20
		}
		fmt.Fprintf(&rows, "%.2f,%.2f,%s,1Gi,1\n", float64(i)/20, life, []string{"900m", "1700m", "3500m"}[i/3%3])
	}
	launched := func(blind bool) int {
		d := Nodeless(model.Policy{})
		n, disrupt, provision, stillTrue := 0, d.Disrupt, d.Provision, d.StillTrue
		see := func(s *model.Snapshot) *model.Snapshot {
			if !blind {
				return s
			}
			out := *s
			out.Expected = nil
			return &out
		}
		d.Disrupt = func(s *model.Snapshot, p model.Policy) model.Plan { return disrupt(see(s), p) }
		d.StillTrue = func(s *model.Snapshot, p model.Policy, c model.Command) model.Reason { return stillTrue(see(s), p, c) }
		d.Provision = func(s *model.Snapshot, p model.Policy) model.Plan {
			plan := provision(s, p)
			if s.Now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) > time.Minute {
				n += len(plan.Launches)
			}
			return plan
		}
		c := plain(traceOf(t, rows.String()), d)
		c.Interval, c.Budget, c.Boot, c.Grace, c.Successor, c.CheckEvery = time.Second, 1, 3*time.Second, 4*time.Second,
			3*time.Second, 20
		r := simulate(t, c)
		t.Logf("blind %v: %d launched for pods, %d in all, %d moves, %d commands, %d undone, $%.4f", blind, n, r.Launched,
			r.Moves, r.Commands, r.Undone, r.Cost)
		return n
	}
	if blind, seeing := launched(true), launched(false); seeing > 2 || blind <= 2*seeing {
		t.Errorf("%d machines were launched for pods that found their room taken, and %d where nobody knows of pods that are yet to come", seeing, blind)
	}
}
