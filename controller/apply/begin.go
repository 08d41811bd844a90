package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// errChanged means that a NodeClaim is no longer as the command assumed.
var errChanged = errors.New("it has changed in the meantime")

// begin starts the commands that are still true, several at a time: it creates their replacements, then marks the
// NodeClaims to be removed. Once the first replacement exists, the command is stored in the cluster, and Advance
// completes it.
func (a *Applier) begin(ctx context.Context, s *model.Snapshot, commands []model.Command) cycle.Result {
	if len(commands) == 0 {
		return cycle.Result{}
	}
	type prepared struct {
		command translate.Command
		orders  []order
	}
	var all []prepared
	var r cycle.Result
	known, active, taken := knownClaims(s), a.activeVictims(), newTally()
	for i := range commands {
		command, orders, err := a.prepare(s, &commands[i], taken, active)
		if err != nil {
			r.Add(refused("command "+command.ID, err.Error()))
			continue
		}
		all = append(all, prepared{command, orders})
	}
	r.Add(parallel(a.o.Parallel, all, func(p prepared) cycle.Result { return a.start(ctx, p.command, p.orders, known) }))
	return r
}

// activeVictims returns the IDs of the commands in progress by the UIDs of the NodeClaims that they remove, marked or
// not. A victim that could not be marked looks like any other NodeClaim in a snapshot: without this check, each cycle
// would begin another command for it and launch a node.
func (a *Applier) activeVictims() map[types.UID]string {
	out := map[types.UID]string{}
	for _, c := range a.find().commands {
		for _, claim := range a.remaining(c) {
			out[claim.UID] = c.ID
		}
	}
	return out
}

// prepare checks a command once more before it starts: every victim must be unchanged and in no other command, and
// all replacements must fit within the limits.
func (a *Applier) prepare(s *model.Snapshot, c *model.Command, taken *tally,
	active map[types.UID]string,
) (translate.Command, []order, error) {
	out := translate.Command{ID: c.ID, Method: c.Method, Launches: len(c.Launches), Since: a.o.Clock.Now().UTC()}
	for i := range c.Removals {
		claim, why := a.stillTrue(s, &c.Removals[i])
		if why != "" {
			return out, nil, fmt.Errorf("NodeClaim %s: %s", c.Removals[i].Claim, why)
		}
		if other := active[claim.UID]; other != "" {
			return out, nil, fmt.Errorf("NodeClaim %s: command %s is in progress for it", claim.Name, other)
		}
		out.Victims = append(out.Victims, translate.Victim{Claim: claim.Name, UID: claim.UID})
	}
	orders, refusals := a.admit(s, c.Launches, taken)
	if len(refusals) > 0 {
		return out, nil, fmt.Errorf("%s: %s", refusals[0].Object, refusals[0].Why)
	}
	for i := range orders {
		orders[i].replaces = &out
	}
	return out, orders, nil
}

// start creates the replacements of a command and marks its victims. If it fails half-way, Advance continues, except
// that a victim that has changed undoes the command at once.
func (a *Applier) start(ctx context.Context, command translate.Command, orders []order,
	known map[string]bool,
) cycle.Result {
	var r cycle.Result
	for _, o := range orders {
		name, part := a.create(ctx, o, known)
		r.Add(part)
		if len(part.Refused)+len(part.Errors) > 0 {
			return r
		}
		command.Replacements = append(command.Replacements, name)
		if claim := a.o.State.Claim(name); claim != nil {
			a.nodes.once(claim, launchingPause, "DisruptionLaunching",
				"Launching NodeClaim: "+string(command.Method))
		}
	}
	slices.Sort(command.Replacements)
	a.count(command)
	a.o.Log.Info("command begun", "command", command.ID, "method", command.Method, "nodeclaims", victims(command),
		"replacements", command.Replacements)
	c := &activeCommand{
		Command: command, marked: map[types.UID]bool{}, replacements: a.replacements(command),
	}
	err := fmt.Errorf("one of its NodeClaims: %w: it is being deleted", errChanged)
	if len(a.remaining(c)) == len(c.Victims) {
		err = a.mark(ctx, c)
	}
	switch {
	case err == nil:
		r.Begun = append(r.Begun, command.ID)
	case errors.Is(err, errChanged):
		r.Add(refused("command "+command.ID, err.Error()))
		r.Add(a.undo(ctx, c, "victim_changed", err.Error()))
	default:
		r.Add(failed(err))
	}
	return r
}

// count counts a command that was begun.
func (a *Applier) count(c translate.Command) {
	var pools []string
	for _, v := range c.Victims {
		if n, ok := a.o.State.NodeOfClaim(v.Claim); ok {
			pools = append(pools, n.Pool)
		}
	}
	a.o.Metrics.Commanded(decision(c), string(c.Method), len(c.Victims), pools...)
}

// decision returns how metrics classify a command.
func decision(c translate.Command) metrics.Decision {
	if c.Launches > 0 {
		return metrics.Replace
	}
	return metrics.Delete
}

func victims(c translate.Command) []string {
	out := make([]string, len(c.Victims))
	for i, v := range c.Victims {
		out[i] = v.Claim
	}
	return out
}
