package sim

import "github.com/nodeless/nodeless/engine/model"

// command is a model.Command that is under way.
type command struct {
	model.Command
	victims []*machine
	waits   int // for so many replacements
	over    bool
}

// begin marks a command's victims and launches what takes their place.
func (r *run) begin(plan model.Command, byName func(string) *machine) {
	c := &command{Command: plan}
	for _, v := range plan.Removals {
		m := byName(v.Node)
		if m == nil || m.node.Deleting {
			return // the plan was made for a cluster that is no longer
		}
		c.victims = append(c.victims, m)
	}
	r.commands++
	for _, m := range c.victims {
		r.moving++
		m.victim, m.node.Deleting, m.node.Command = c, true, plan.ID
		r.open(m, false)
	}
	for i := range plan.Launches {
		if r.launch(&plan.Launches[i], c) == nil {
			r.undo(c)
			return
		}
		c.waits++
	}
	r.changed()
	if c.waits == 0 {
		r.finish(c)
	}
}

// oneReady notes that one of the command's replacements is ready.
func (r *run) oneReady(c *command, m *machine) {
	m.replaces = nil
	if c.waits--; c.waits == 0 && !c.over {
		r.finish(c)
	}
}

// finish drains the victims if the command still holds, else they stay.
func (r *run) finish(c *command) {
	if c.over {
		return
	}
	if r.Decider.StillTrue != nil {
		if reason := r.Decider.StillTrue(r.snapshot(), c.Command); reason.Rule != "" {
			r.undo(c)
			return
		}
	}
	c.over = true
	for _, m := range c.victims {
		if r.exists(m) && !m.taken {
			r.queue.add(event{at: r.now + r.Grace, kind: becomesIdle, machine: m})
			r.evict(m)
		}
	}
}

// undo lets the victims be as before. The replacements stay: pods may have their place there by now.
func (r *run) undo(c *command) {
	if c.over {
		return
	}
	c.over = true
	r.undone++
	for _, m := range c.victims {
		if !r.exists(m) || m.taken {
			continue
		}
		r.moving--
		m.victim, m.node.Deleting, m.node.Command = nil, false, ""
		r.open(m, true)
		r.changed()
		r.fill(m)
	}
}
