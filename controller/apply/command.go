package apply

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// activeCommand is a command in progress, as it is found in the cluster.
type activeCommand struct {
	translate.Command
	marked       map[types.UID]bool           // victims annotated with it
	replacements map[string]*karpv1.NodeClaim // that exist and are not being deleted, by name
}

// found is all that NodeClaims say about commands.
type found struct {
	commands  []*activeCommand    // by ID
	malformed []*karpv1.NodeClaim // with an annotation that cannot be read
	stale     []*karpv1.NodeClaim // with a mark of a disruption, but neither in a command nor being deleted
}

// find reads the commands from the annotations of NodeClaims.
func (a *Applier) find() found {
	var f found
	byID := map[string]*activeCommand{}
	of := func(c translate.Command) *activeCommand {
		active := byID[c.ID]
		if active == nil {
			active = &activeCommand{
				Command: c, marked: map[types.UID]bool{},
				replacements: map[string]*karpv1.NodeClaim{},
			}
			byID[c.ID] = active
		}
		if len(c.Replacements) > 0 {
			active.Command = c // a victim's annotation is complete
		}
		return active
	}
	for _, claim := range a.o.State.Claims() {
		c, marked, err := translate.CommandOf(claim)
		switch {
		case err != nil && claim.DeletionTimestamp == nil:
			f.malformed = append(f.malformed, claim)
		case marked && err == nil:
			of(c).marked[claim.UID] = true
		case claim.DeletionTimestamp == nil && (conditions.IsTrue(claim, karpv1.ConditionTypeDisruptionReason) ||
			claim.Annotations[translate.AnnotationDisruption] != "" && !a.o.State.Ending(claim)):
			f.stale = append(f.stale, claim)
		}
		c, replaces, err := translate.ReplacingOf(claim)
		switch {
		case !replaces || claim.DeletionTimestamp != nil: // one that is being deleted replaces nothing
		case err != nil:
			f.malformed = append(f.malformed, claim)
		default:
			of(c).replacements[claim.Name] = claim
		}
	}
	f.commands = slices.SortedFunc(maps.Values(byID), func(x, y *activeCommand) int { return cmp.Compare(x.ID, y.ID) })
	return f
}

// replacements returns the NodeClaims that a command names.
func (a *Applier) replacements(c translate.Command) map[string]*karpv1.NodeClaim {
	out := map[string]*karpv1.NodeClaim{}
	for _, name := range c.Replacements {
		if claim := a.o.State.Claim(name); claim != nil {
			out[name] = claim
		}
	}
	return out
}

// remaining returns the victims that are not being deleted yet. Once one of them is being deleted, any other that
// does not carry the command's annotation has been released: victims being deleted keep theirs to the end.
func (a *Applier) remaining(c *activeCommand) []*karpv1.NodeClaim {
	var out []*karpv1.NodeClaim
	for _, v := range c.Victims {
		claim := a.o.State.Claim(v.Claim)
		if claim != nil && claim.UID == v.UID && claim.DeletionTimestamp == nil && !a.o.State.Ending(claim) {
			out = append(out, claim)
		}
	}
	if len(out) < len(c.Victims) {
		out = slices.DeleteFunc(out, func(claim *karpv1.NodeClaim) bool { return !c.marked[claim.UID] })
	}
	return out
}

// broken says why a command can never be completed; "" if it can.
func (c *activeCommand) broken(now time.Time, limit time.Duration) (why, message string) {
	switch age := now.Sub(c.Since); {
	case len(c.replacements) < c.Launches:
		return "replacement_failed", "its replacement could not be launched"
	case c.awaited() != nil && age >= limit:
		return "timeout", "its replacement was not ready within " + limit.String()
	case age >= limit+cycle.MinReplacementTimeout:
		return "timeout", "the disruption was not finished within " + (limit + cycle.MinReplacementTimeout).String()
	}
	return "", ""
}

// awaited returns the first replacement that is not initialized yet, nil if all are.
func (c *activeCommand) awaited() *karpv1.NodeClaim {
	for _, name := range slices.Sorted(maps.Keys(c.replacements)) {
		if claim := c.replacements[name]; !conditions.IsTrue(claim, karpv1.ConditionTypeInitialized) {
			return claim
		}
	}
	return nil
}

// command returns the rest of a command in the engine's form.
func (a *Applier) command(c *activeCommand, remaining []*karpv1.NodeClaim) model.Command {
	out := model.Command{ID: c.ID, Method: c.Method}
	for _, claim := range remaining {
		n, _ := a.o.State.NodeOfClaim(claim.Name)
		out.Removals = append(out.Removals,
			model.Removal{Node: n.Name, Claim: claim.Name, Pool: n.Pool, Method: c.Method, Saves: n.Price})
	}
	slices.SortFunc(out.Removals, func(x, y model.Removal) int { return cmp.Compare(x.Node, y.Node) })
	return out
}
