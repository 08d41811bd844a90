package controller

import (
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record"
)

// turnOf is what is kept of a turn of the loop.
func turnOf(d cycle.Decision, p model.Policy) record.Cycle {
	t := record.Cycle{
		Snapshot: d.Snapshot, Policy: p, Plan: d.Plan, Bad: d.Bad, Claims: d.Result.Claims, Removed: d.Result.Removed,
		Begun: d.Result.Begun, Finished: d.Result.Finished,
	}
	for _, u := range d.Result.Undone {
		t.Undone = append(t.Undone, record.Abandoned{Command: u.Command, Why: u.Message})
	}
	return t
}
