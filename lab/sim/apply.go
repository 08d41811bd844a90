package sim

import (
	"context"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
)

// applier carries out plans in the simulated cluster, as controller/apply does in a real one.
type applier struct{ *run }

// Apply launches and removes nodes.
func (a applier) Apply(_ context.Context, _ *model.Snapshot, plan model.Plan) cycle.Result {
	out := cycle.Result{Claims: map[string]string{}}
	for i := range plan.Launches {
		n, err := a.launch(&plan.Launches[i], nil)
		if err != nil {
			out.Errors = append(out.Errors, err)
			continue
		}
		out.Created, out.Claims[plan.Launches[i].ID] = append(out.Created, n.Name), n.Name
	}
	for i := range plan.Removals {
		if n := a.named(plan.Removals[i].Node); n != nil && !n.Deleting {
			n.Deleting = true
			a.setSchedulable(n, false)
			a.emptied++
			a.evict(n)
			a.terminate(n)
			out.Removed = append(out.Removed, n.Name)
		}
	}
	for i := range plan.Commands {
		out.Add(a.begin(&plan.Commands[i]))
	}
	return out
}

// Report does nothing: the simulated cluster has no events.
func (applier) Report(*model.Snapshot, model.Plan, map[string]string) {}

// Advance drains the nodes of commands whose replacements are ready, if the commands still hold; otherwise it undoes
// the commands.
func (a applier) Advance(_ context.Context, _ *model.Snapshot, stillTrue cycle.StillTrue) (out cycle.Result,
	due time.Time,
) {
	a.inProgress = slices.DeleteFunc(a.inProgress, func(c *command) bool {
		switch {
		case c.over:
			return true
		case c.waits > 0:
			return false
		case stillTrue(a.snapshot(), c.Command).Rule != "":
			a.undo(c)
			out.Undone = append(out.Undone, cycle.Undone{Command: c.ID, Method: c.Method})
			return true
		}
		c.over = true
		for _, n := range c.nodes {
			if a.exists(n) && !n.interrupted {
				a.queue.add(event{at: a.now + a.Grace, kind: nodeGone, node: n})
				a.evict(n)
			}
		}
		out.Finished = append(out.Finished, c.ID)
		return true
	})
	return out, due
}

// command is a model.Command in progress.
type command struct {
	model.Command
	nodes []*node // the nodes it removes
	waits int     // the number of replacements that are not ready yet
	over  bool
}

// begin cordons the nodes that a command removes and launches their replacements.
func (r *run) begin(plan *model.Command) (out cycle.Result) {
	c := &command{Command: *plan}
	for _, x := range plan.Removals {
		n := r.named(x.Node)
		if n == nil || n.Deleting {
			out.Refused = append(out.Refused, cycle.Refusal{Object: "node " + x.Node, Why: "it is gone or being deleted"})
			return out
		}
		c.nodes = append(c.nodes, n)
	}
	r.commands++
	for _, n := range c.nodes {
		r.leaving++
		n.removedBy, n.Deleting, n.Command = c, true, plan.ID
		r.setSchedulable(n, false)
	}
	for i := range plan.Launches {
		n, err := r.launch(&plan.Launches[i], c)
		if err != nil {
			r.undo(c)
			out.Errors = append(out.Errors, err)
			return out
		}
		out.Created = append(out.Created, n.Name)
		c.waits++
	}
	r.changed()
	r.inProgress = append(r.inProgress, c)
	out.Begun = append(out.Begun, c.ID)
	return out
}

// undo makes a command's nodes schedulable again. The replacements stay: pods may be bound to them by now.
func (r *run) undo(c *command) {
	if c.over {
		return
	}
	c.over = true
	r.undone++
	for _, n := range c.nodes {
		if !r.exists(n) || n.interrupted {
			continue
		}
		r.leaving--
		n.removedBy, n.Deleting, n.Command = nil, false, ""
		r.setSchedulable(n, true)
		r.changed()
		r.fill(n)
	}
}
