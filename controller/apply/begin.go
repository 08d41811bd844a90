package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// errChanged means that a machine is no longer as the command believed.
var errChanged = errors.New("it has changed in the meantime")

// begin starts the commands that are still right, several at a time: their replacements first, then their victims are
// marked. From the first replacement on the command is data in the cluster, and Advance brings it to an end.
func (a *Applier) begin(ctx context.Context, s *model.Snapshot, commands []model.Command, r *cycle.Result) {
	if len(commands) == 0 {
		return
	}
	known, going := knownClaims(s), a.victimsUnderWay()
	taken := newTally()
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(a.o.Parallel)
	for i := range commands {
		c := &commands[i]
		record, orders, err := a.prepare(s, c, taken, going)
		if err != nil {
			r.Refused = append(r.Refused, cycle.Refusal{Object: "command " + c.ID, Why: err.Error()})
			continue
		}
		group.Go(func() error {
			part := a.start(ctx, s, record, orders, known)
			mu.Lock()
			defer mu.Unlock()
			r.Add(part)
			return nil
		})
	}
	_ = group.Wait() // r has all errors
}

// victimsUnderWay are the commands that machines are part of, marked or not yet, by the UID of the NodeClaim. A
// victim that could not be marked looks like any other in a snapshot: were another command begun for it each time,
// each would launch a machine.
func (a *Applier) victimsUnderWay() map[types.UID]string {
	out := map[types.UID]string{}
	for _, u := range a.find().commands {
		for _, claim := range a.left(u) {
			out[claim.UID] = u.ID
		}
	}
	return out
}

// prepare looks at a command once more before anything of it is done: every victim must be as it was and in no other
// command, and there must be room within the limits for all of its replacements.
func (a *Applier) prepare(s *model.Snapshot, c *model.Command, taken *tally,
	going map[types.UID]string,
) (translate.Command, []order, error) {
	record := translate.Command{ID: c.ID, Method: c.Method, Launches: len(c.Launches), Since: a.o.Clock.Now().UTC()}
	for i := range c.Removals {
		claim, why := a.stillTrue(s, &c.Removals[i])
		if why != "" {
			return record, nil, fmt.Errorf("NodeClaim %s: %s", c.Removals[i].Claim, why)
		}
		if other := going[claim.UID]; other != "" {
			return record, nil, fmt.Errorf("NodeClaim %s: command %s is under way for it", claim.Name, other)
		}
		record.Victims = append(record.Victims, translate.Victim{Claim: claim.Name, UID: claim.UID})
	}
	var refused cycle.Result
	orders := a.admit(s, c.Launches, taken, &refused)
	if len(refused.Refused) > 0 {
		return record, nil, fmt.Errorf("%s: %s", refused.Refused[0].Object, refused.Refused[0].Why)
	}
	for i := range orders {
		orders[i].replaces = &record
	}
	return record, orders, nil
}

// start creates the replacements of a command and marks its victims. What fails half-way is left to Advance, except
// that a victim which has changed undoes the command at once.
func (a *Applier) start(ctx context.Context, s *model.Snapshot, record translate.Command, orders []order,
	known map[string]bool,
) cycle.Result {
	r := cycle.Result{Claims: map[string]string{}}
	for _, o := range orders {
		name, created, err := a.create(ctx, o, known)
		if errors.Is(err, errTaken) {
			r.Refused = append(r.Refused, cycle.Refusal{Object: "NodeClaim " + name, Why: err.Error()})
			return r
		}
		if err != nil {
			r.Errors = append(r.Errors, err)
			return r
		}
		if created {
			r.Created = append(r.Created, name)
		} else {
			r.Existing = append(r.Existing, name)
		}
		r.Claims[o.launch.ID] = name
		record.Replacements = append(record.Replacements, name)
		if claim := a.o.State.Claim(name); claim != nil {
			a.machines.once(claim, launchingSaid, corev1.EventTypeNormal, "DisruptionLaunching",
				"Launching NodeClaim: "+string(record.Method))
		}
	}
	slices.Sort(record.Replacements)
	a.count(record)
	a.o.Log.Info("machines go as soon as others are ready", "command", record.ID, "method", record.Method,
		"nodeclaims", victims(record), "replacements", record.Replacements)
	u := &underway{Command: record, replacements: a.replacements(record)}
	err := fmt.Errorf("a machine of it: %w: it is going", errChanged)
	if len(a.left(u)) == len(u.Victims) {
		err = a.mark(ctx, u)
	}
	switch {
	case err == nil:
		r.Begun = append(r.Begun, record.ID)
	case errors.Is(err, errChanged):
		r.Refused = append(r.Refused, cycle.Refusal{Object: "command " + record.ID, Why: err.Error()})
		r.Add(a.undo(ctx, u, "victim_changed", err.Error()))
	default:
		r.Errors = append(r.Errors, err)
	}
	return r
}

// count counts a command that was begun.
func (a *Applier) count(c translate.Command) {
	how := metrics.Delete
	if c.Launches > 0 {
		how = metrics.Replace
	}
	var pools []string
	for _, v := range c.Victims {
		if m, ok := a.o.State.Machine(v.Claim); ok {
			pools = append(pools, m.Pool)
		}
	}
	a.o.Metrics.Commanded(how, string(c.Method), len(c.Victims), pools...)
}

func victims(c translate.Command) []string {
	out := make([]string, len(c.Victims))
	for i, v := range c.Victims {
		out[i] = v.Claim
	}
	return out
}
