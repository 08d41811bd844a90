package reason

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// mostNamed is how many machines of a command are named.
const mostNamed = 5

// Command says which machines go together, why, what takes their place, and what that saves.
func Command(s *model.Snapshot, c model.Command) string {
	var names []string
	for _, r := range c.Removals[:min(len(c.Removals), mostNamed)] {
		names = append(names, machine(s, r.Node))
	}
	text := strings.Join(names, ", ")
	if more := len(c.Removals) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	text += reason(c)
	switch len(c.Launches) {
	case 0:
		if n := len(c.Placements); n > 0 {
			text += fmt.Sprintf("; there is room for %s", count(n, "pod"))
		}
	case 1:
		text += fmt.Sprintf("; first comes %s", replacement(&c.Launches[0]))
	default:
		text += fmt.Sprintf("; first come %d machines, such as %s", len(c.Launches), replacement(&c.Launches[0]))
	}
	switch {
	case c.Saves > 0:
		text += ", saves " + Dollars(c.Saves)
	case c.Saves < 0:
		text += ", costs " + Dollars(-c.Saves) + " more"
	}
	return text
}

// reason is why the machines of a command go.
func reason(c model.Command) string {
	drifted, one := c.Method == model.Drifted, len(c.Removals) == 1
	switch {
	case c.Method == model.Expired:
		return " goes: it is older than its pool's nodeless.sh/soft-expire-after"
	case c.Method == model.CrowdedOut:
		return " goes: a DaemonSet's pod has no room on it"
	case drifted && one:
		return " goes: it is no longer as its pool and node class say"
	case drifted:
		return " go: they are no longer as their pools and node classes say"
	case one:
		return " goes: its pods cost less elsewhere"
	}
	return " go: their pods cost less elsewhere"
}

func replacement(l *model.Launch) string {
	return fmt.Sprintf("%s %s in %s at %s", l.Chosen.Type, l.Chosen.CapacityType, l.Chosen.Zone, Dollars(l.Chosen.Price))
}

// Undone says why a command that was under way is not carried out.
func Undone(r model.Reason) string {
	if text := moves(r); text != "" {
		return text
	}
	return strings.SplitN(Kept(model.Kept{Reason: r}), "stays: ", 2)[1]
}

// moves says why pods do not move; "" for other rules.
//
// Of Held, Object is the pod and Detail what holds it; of NoPlace, Object is the pod and Detail the rule that left it none; of
// MoreMachines, Detail is how many; of NotCheaper, BestOf is the replacement and Best its dollars an hour; of SpotToSpot, Detail is how many
// cheaper types are wanted and Best how many there are; of Balanced, Detail is the score that is wanted and Best what it is.
func moves(r model.Reason) string {
	if len(r.Group) > 0 {
		return grouped(r)
	}
	switch r.Rule {
	case model.RuleEvictionBlocked:
		return r.Object + " cannot be evicted now: " + r.Detail
	case model.RuleGone:
		return r.Object + " is not there any more"
	case model.RuleNotDrifted:
		return r.Object + " is as its pool and node class say again"
	case model.RuleNoPlace:
		return r.Object + " would find no other place: " + or(nowhere(r.Pools), r.Detail)
	case model.RuleMoreNodes:
		return fmt.Sprintf("its pods would need %s more", plural(r.Detail, "machine"))
	case model.RuleNotCheaper:
		if r.Best == "" {
			return "its pods cost as much elsewhere"
		}
		return fmt.Sprintf("no cheaper node has room for its pods; the best is %s at $%s/h", r.BestOf, r.Best)
	case model.RuleSpotToSpot:
		if r.Detail == "" {
			return "only another spot machine is cheaper, and spot machines are not replaced by spot machines (SpotToSpotConsolidation)"
		}
		return fmt.Sprintf("spot is replaced by spot only where %s types are cheaper, and %s are", r.Detail, r.Best)
	case model.RuleWhenEmpty:
		return "pool " + r.Object + " says consolidationPolicy: WhenEmpty, and pods run there"
	case model.RuleBalanced:
		return fmt.Sprintf("what moving its pods saves is not worth it under consolidationPolicy: Balanced (score %s, wanted %s)", r.Best, r.Detail)
	case model.RuleSteps:
		return "others are looked at first, its turn comes"
	case model.RulePoolNotReady:
		return "no replacement can be launched: pool " + r.Object + " is not ready: " + r.Detail
	case model.RuleLimit:
		return fmt.Sprintf("no replacement can be launched: limit nodes %s of pool %s is reached", r.Detail, r.Object)
	case model.RuleCapacity:
		return "no replacement can be launched: pool " + r.Object + " has no offering for it now"
	case model.RuleFragile:
		return r.Object + " has another place only if kube-scheduler placed all pods that move just so, which it does not"
	case model.RulePayback:
		return fmt.Sprintf("its pods are %s old and may be gone before what their moves cost is saved again, in %s", r.Best, r.Detail)
	case model.RuleNoPrice:
		return "what it costs is not known"
	case model.RuleStatic:
		return "pool " + r.Object + " is static and has no more than its " + plural(r.Detail, "replica")
	}
	return ""
}

// grouped says why nodes are not replaced that would be replaced together.
func grouped(r model.Reason) string {
	text := Group(r.Group) + ", but "
	alone := r
	alone.Group = nil
	switch r.Rule {
	case model.RuleBudget:
		return text + fmt.Sprintf("the disruption budget of pool %s lets no more than %s go now, and others come first", r.Object, plural(r.Detail, "node"))
	case model.RulePayback:
		return text + fmt.Sprintf("their pods are %s old, and the moves pay only for pods that are %s old", r.Best, r.Detail)
	}
	return text + Undone(alone)
}

// mostInGroup is how many nodes of a group are named.
const mostInGroup = 3

// Group says that nodes would be replaced together.
func Group(nodes []string) string {
	names := strings.Join(nodes[:min(len(nodes), mostInGroup)], ", ")
	if more := len(nodes) - mostInGroup; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("something cheaper would take the place of %s together (%s)", count(len(nodes), "node"), names)
}

// mostRefusing is how many pools are named that have no place for a pod.
const mostRefusing = 3

// nowhere says why no pool has a place for a pod: those that come nearest say it, which are not those whose taints it does not tolerate
// or that take no pods.
func nowhere(pools []model.PoolVerdict) string {
	far := func(v model.PoolVerdict) int {
		switch v.Rule {
		case model.RuleTaint:
			return 1
		case model.RulePoolNotReady:
			return 2
		}
		return 0
	}
	nearest := slices.Clone(pools)
	slices.SortStableFunc(nearest, func(a, b model.PoolVerdict) int { return cmp.Compare(far(a), far(b)) })
	var parts []string
	for _, v := range nearest[:min(len(nearest), mostRefusing)] {
		parts = append(parts, Verdict(v))
	}
	if more := len(pools) - mostRefusing; more > 0 {
		parts = append(parts, "nor has any of "+count(more, "other pool"))
	}
	return strings.Join(parts, "; ")
}

func plural(n, noun string) string {
	if n == "1" {
		return "1 " + noun
	}
	return n + " " + noun + "s"
}
