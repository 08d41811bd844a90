package reason

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// A sentence names at most this many nodes of a command, nodes of a group, and pools that refuse a pod.
const (
	maxNodes      = 5
	maxGroupNodes = 3
	maxPools      = 3
)

// Command says which nodes are removed, what replaces them, why, and what that saves.
func Command(s *model.Snapshot, c model.Command) string {
	var names []string
	for _, r := range c.Removals {
		names = append(names, node(s, r.Node))
	}
	text := "remove "
	if len(c.Launches) > 0 {
		text = "replace "
	}
	text += Some(names, maxNodes)
	switch len(c.Launches) {
	case 0:
	case 1:
		text += " with " + Candidate(c.Launches[0].Chosen)
	default:
		text += fmt.Sprintf(" with %d nodes, such as %s", len(c.Launches), Candidate(c.Launches[0].Chosen))
	}
	text += ": " + method(c.Method, len(c.Removals) == 1)
	if n := len(c.Placements); n > 0 && len(c.Launches) == 0 {
		text += fmt.Sprintf("; other nodes have room for %s", Count(n, "pod"))
	}
	switch {
	case c.Saves > 0:
		text += "; saves " + Dollars(c.Saves)
	case c.Saves < 0:
		text += "; costs " + Dollars(-c.Saves) + " more"
	}
	return text
}

// Removal says which node is removed, why, and what that saves.
func Removal(s *model.Snapshot, r model.Removal) string {
	text := fmt.Sprintf("remove %s of pool %s: %s", node(s, r.Node), r.Pool, method(r.Method, true))
	if r.Saves > 0 {
		text += "; saves " + Dollars(r.Saves)
	}
	return text
}

// method says why one node, or several, are removed.
func method(m model.Method, one bool) string {
	subject, its := "it is", "its"
	if !one {
		subject, its = "they are", "their"
	}
	switch m {
	case model.Drifted:
		if one {
			return "it no longer matches its NodePool and node class"
		}
		return "they no longer match their NodePools and node classes"
	case model.Overprovisioned:
		return "the pool has more nodes than replicas"
	case model.Underutilized:
		return its + " pods cost less elsewhere"
	case model.Expired:
		return subject + " older than nodeless.sh/soft-expire-after of the pool"
	case model.CrowdedOut:
		return "a DaemonSet pod does not fit on it"
	}
	return subject + " empty"
}

// node names a node with its type.
func node(s *model.Snapshot, name string) string {
	i := slices.IndexFunc(s.Nodes, func(n model.Node) bool { return n.Name == name })
	if i < 0 || s.Nodes[i].Type == "" {
		return name
	}
	return name + " (" + strings.TrimSpace(s.Nodes[i].Type+" "+s.Nodes[i].CapacityType) + ")"
}

// Kept says which node is kept, and why.
func Kept(k model.Kept) string { return k.Node + " is kept: " + Undone(k.Reason) }

// Undone says why a node is kept, or why a command in progress is abandoned.
func Undone(r model.Reason) string {
	if len(r.Group) > 0 {
		return group(r)
	}
	for _, sentence := range []func(model.Reason) string{protected, unmoved, unreplaced, preference} {
		if text := sentence(r); text != "" {
			return text
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Rule, r.Object, r.Detail))
}

// protected says what protects a node from disruption for now; "" for other rules.
func protected(r model.Reason) string {
	switch r.Rule {
	case model.RuleBudget:
		return fmt.Sprintf("the disruption budget of pool %s allows %s now", r.Object, r.Detail)
	case model.RuleDoNotDisrupt:
		return r.Object + " must not be disrupted (karpenter.sh/do-not-disrupt)"
	case model.RuleTooYoung:
		return fmt.Sprintf("consolidateAfter of pool %s passes in %s", r.Object, r.Detail)
	case model.RuleNever:
		return "pool " + r.Object + " sets consolidateAfter: Never"
	case model.RuleWhenEmpty:
		return "pool " + r.Object + " sets consolidationPolicy: WhenEmpty, and the node runs pods"
	case model.RuleNeeded:
		if r.Detail == "moving" {
			return "pods that have to move are planned onto it"
		}
		return "pending pods are planned onto it"
	case model.RulePreflight:
		return "no pods are moved now (--preflight=enforce): " + r.Detail
	case model.RuleNotInitialized:
		return "it is not initialized yet"
	case model.RuleStatic:
		return "pool " + r.Object + " is static and has no more nodes than its " + plural(r.Detail, "replica")
	case model.RuleMinNodes:
		return fmt.Sprintf("the node group of pool %s keeps at least %s", r.Object, plural(r.Detail, "node"))
	case model.RuleNoPool:
		if r.Object == "" {
			return "it belongs to no NodePool"
		}
		return "NodePool " + r.Object + " no longer exists"
	case model.RuleGone:
		return r.Object + " no longer exists"
	case model.RuleNotDrifted:
		return r.Object + " matches its NodePool and node class again"
	}
	return ""
}

// unmoved says why a node's pods stay where they are; "" for other rules.
//
//	EvictionBlocked  Object is the pod; Detail what forbids its eviction
//	NoPlace       Object is the pod; Detail the rule that keeps it from fitting elsewhere
//	MoreNodes     Detail is how many nodes
//	NotCheaper    BestOf is the replacement; Best its dollars an hour
//	Balanced      Detail is the required score; Best the actual one
func unmoved(r model.Reason) string {
	switch r.Rule {
	case model.RuleEvictionBlocked:
		return r.Object + " cannot be evicted now: " + r.Detail
	case model.RuleNoPlace:
		return r.Object + " fits nowhere else: " + or(nowhere(r.Pools), r.Detail)
	case model.RuleMoreNodes:
		return "its pods would need " + plural(r.Detail, "more node")
	case model.RuleNotCheaper:
		if r.Best == "" {
			return "its pods cost as much elsewhere"
		}
		return fmt.Sprintf("no cheaper node fits its pods; the cheapest is %s at %s", r.BestOf, exact(r.Best))
	case model.RuleBalanced:
		return fmt.Sprintf("moving its pods saves too little for consolidationPolicy: Balanced (score %s, required %s)",
			r.Best, r.Detail)
	case model.RuleFragile:
		return r.Object + " fits elsewhere only if kube-scheduler places all moved pods exactly as planned, which is not " +
			"certain"
	case model.RulePayback:
		return fmt.Sprintf("its pods are %s old and may end before moving them pays off, in %s", r.Best, r.Detail)
	}
	return ""
}

// unreplaced says why a node gets no replacement; "" for other rules. For SpotToSpot, Detail is how many cheaper
// types are required and Best how many there are.
func unreplaced(r model.Reason) string {
	switch r.Rule {
	case model.RuleSpotToSpot:
		if r.Detail == "" {
			return "only another spot node is cheaper, and feature gate SpotToSpotConsolidation is off"
		}
		return fmt.Sprintf("a spot node is replaced by another only if %s types are cheaper, and %s are", r.Detail, r.Best)
	case model.RuleSteps:
		return "other nodes are evaluated first; its turn comes in a later cycle"
	case model.RulePoolNotReady:
		return "no replacement can be launched: pool " + r.Object + " is not ready: " + r.Detail
	case model.RuleLimit:
		return fmt.Sprintf("no replacement can be launched: limit nodes %s of pool %s is reached", r.Detail, r.Object)
	case model.RuleCapacity:
		return "no replacement can be launched: pool " + r.Object + " has no offering for it now"
	case model.RuleNoPrice:
		return "its price is not known"
	}
	return ""
}

// preference says which of the pool owner's preferences forbids a disruption; "" for other rules.
//
//	Window      Object is the pool; Detail when its window opens next or, if Best is "closing", when the open one closes
//	Unclear     Object is the pool; Detail what cannot be parsed
//	SmallSaving Object is the pool; Detail the required saving and Best the actual one, in dollars an hour
//	Job         Object is the pod; Detail how long it is likely to run
//	NoHelp      Object is the DaemonSet; BestOf the type
//	NotExpired, NotCrowded  Object is the node
func preference(r model.Reason) string {
	switch r.Rule {
	case model.RuleWindow:
		switch {
		case r.Best != "":
			return fmt.Sprintf("the disruption window of pool %s closes at %s, too soon to start", r.Object, r.Detail)
		case r.Detail == "":
			return "no disruption window of pool " + r.Object + " ever opens (nodeless.sh/disruption-windows)"
		}
		return fmt.Sprintf("the next disruption window of pool %s opens at %s", r.Object, r.Detail)
	case model.RuleUnclear:
		return fmt.Sprintf("no node of pool %s is disrupted until this is corrected: %s", r.Object, r.Detail)
	case model.RuleSmallSaving:
		return fmt.Sprintf("it would save %s, and pool %s requires %s or more (nodeless.sh/minimum-saving)", exact(r.Best),
			r.Object, exact(r.Detail))
	case model.RuleJob:
		return fmt.Sprintf("%s of a Job is expected to finish in about %s, before moving it pays off "+
			"(nodeless.sh/wait-for-jobs)",
			r.Object, r.Detail)
	case model.RuleNoHelp:
		return fmt.Sprintf("another %s would not fit the pod of DaemonSet %s either", r.BestOf, r.Object)
	case model.RuleNotExpired:
		return r.Object + " has not expired after all"
	case model.RuleNotCrowded:
		return r.Object + " has room for its DaemonSet pods again"
	}
	return ""
}

// group says why nodes that would be replaced together are kept.
func group(r model.Reason) string {
	text := Group(r.Group) + ", but "
	switch r.Rule {
	case model.RuleBudget:
		return text + fmt.Sprintf("the disruption budget of pool %s allows only %s now, and other nodes come first",
			r.Object, plural(r.Detail, "node"))
	case model.RulePayback:
		return text + fmt.Sprintf("their pods are %s old, and moving them pays off only from an age of %s", r.Best, r.Detail)
	}
	r.Group = nil
	return text + Undone(r)
}

// Group says that something cheaper would replace nodes together.
func Group(nodes []string) string {
	return fmt.Sprintf("something cheaper would replace %s together (%s)", Count(len(nodes), "node"),
		Some(nodes, maxGroupNodes))
}

// nowhere says why no pool can take a pod. It names the pools that come nearest first: before those whose taints the
// pod does not tolerate, and those that are not ready.
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
	for _, v := range nearest[:min(len(nearest), maxPools)] {
		parts = append(parts, Verdict(v))
	}
	if more := len(pools) - maxPools; more > 0 {
		parts = append(parts, Count(more, "other pool")+" cannot take it either")
	}
	return strings.Join(parts, "; ")
}
