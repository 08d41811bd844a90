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

// underway is a command as it is found in the cluster.
type underway struct {
	translate.Command
	marked map[types.UID]bool // victims that carry it
	// those that are there, say that they belong to it and are not going, by name
	replacements map[string]*karpv1.NodeClaim
}

// found is all that the cluster says of commands.
type found struct {
	commands []*underway         // by ID
	garbled  []*karpv1.NodeClaim // carry what cannot be read
	stale    []*karpv1.NodeClaim // say that they go, and are part of no command
}

// find reads the commands off the NodeClaims.
func (a *Applier) find() found {
	var f found
	byID := map[string]*underway{}
	of := func(c translate.Command) *underway {
		u := byID[c.ID]
		if u == nil {
			u = &underway{Command: c, marked: map[types.UID]bool{}, replacements: map[string]*karpv1.NodeClaim{}}
			byID[c.ID] = u
		}
		if len(c.Replacements) > 0 {
			u.Command = c // the victims' word is the complete one
		}
		return u
	}
	for _, claim := range a.o.State.Claims() {
		c, marked, err := translate.CommandOf(claim)
		switch {
		case err != nil && claim.DeletionTimestamp == nil:
			f.garbled = append(f.garbled, claim)
		case marked && err == nil:
			of(c).marked[claim.UID] = true
		case claim.DeletionTimestamp == nil && disruptionReason(claim):
			f.stale = append(f.stale, claim)
		}
		c, replaces, err := translate.ReplacingOf(claim)
		if !replaces || claim.DeletionTimestamp != nil { // one that goes replaces nothing, and says nothing of a command
			continue
		}
		if err != nil {
			f.garbled = append(f.garbled, claim)
			continue
		}
		of(c).replacements[claim.Name] = claim
	}
	f.commands = slices.SortedFunc(maps.Values(byID), func(x, y *underway) int { return cmp.Compare(x.ID, y.ID) })
	return f
}

// replacements are the claims that a command names.
func (a *Applier) replacements(c translate.Command) map[string]*karpv1.NodeClaim {
	out := map[string]*karpv1.NodeClaim{}
	for _, name := range c.Replacements {
		if claim := a.o.State.Claim(name); claim != nil {
			out[name] = claim
		}
	}
	return out
}

// left are the victims that are not going yet. Once one of them goes, another that does not carry the command has
// been let off: those that go carry it until they are gone.
func (a *Applier) left(u *underway) []*karpv1.NodeClaim {
	var out []*karpv1.NodeClaim
	for _, v := range u.Victims {
		claim := a.o.State.Claim(v.Claim)
		if claim != nil && claim.UID == v.UID && claim.DeletionTimestamp == nil && !a.o.State.Ending(claim) {
			out = append(out, claim)
		}
	}
	if len(out) < len(u.Victims) {
		out = slices.DeleteFunc(out, func(claim *karpv1.NodeClaim) bool { return !u.marked[claim.UID] })
	}
	return out
}

// broken says what of a command can never become whole again, "" if nothing.
func (u *underway) broken(now time.Time, patience time.Duration) (why, message string) {
	switch {
	case len(u.replacements) < u.Launches:
		return "replacement_failed", "its replacement could not be launched"
	case u.waiting() != nil && now.Sub(u.Since) >= patience:
		return "timeout", "its replacement was not ready within " + patience.String()
	case now.Sub(u.Since) >= patience+cycle.MinReplacementTimeout:
		return "timeout", "the disruption was not finished within " + (patience + cycle.MinReplacementTimeout).String()
	}
	return "", ""
}

// waiting is the first replacement that is not initialized yet, nil if all are.
func (u *underway) waiting() *karpv1.NodeClaim {
	for _, name := range slices.Sorted(maps.Keys(u.replacements)) {
		if claim := u.replacements[name]; !conditions.IsTrue(claim, karpv1.ConditionTypeInitialized) {
			return claim
		}
	}
	return nil
}

// command is what is left of it, for the engine.
func (a *Applier) command(u *underway, left []*karpv1.NodeClaim) model.Command {
	c := model.Command{ID: u.ID, Method: u.Method}
	for _, claim := range left {
		m, _ := a.o.State.Machine(claim.Name)
		c.Removals = append(c.Removals,
			model.Removal{Node: m.Name, Claim: claim.Name, Pool: m.Pool, Method: u.Method, Saves: m.Price})
	}
	slices.SortFunc(c.Removals, func(x, y model.Removal) int { return cmp.Compare(x.Node, y.Node) })
	return c
}

func disruptionReason(claim *karpv1.NodeClaim) bool {
	return conditions.IsTrue(claim, karpv1.ConditionTypeDisruptionReason)
}
