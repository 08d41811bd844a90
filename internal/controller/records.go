package controller

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/loop"
	"github.com/nodeless/nodeless/internal/record"
)

// turnOf is what is kept of a turn of the loop.
func turnOf(d loop.Decision, p model.Policy) record.Turn {
	t := record.Turn{
		Snapshot: d.Snapshot, Policy: p, Plan: d.Plan, Bad: d.Bad, Claims: d.Result.Claims, Removed: d.Result.Removed,
		Begun: d.Result.Begun, Finished: d.Result.Finished,
	}
	for _, u := range d.Result.Undone {
		t.Undone = append(t.Undone, record.Halted{Command: u.Command, Why: u.Message})
	}
	return t
}
