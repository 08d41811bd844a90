package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// drift is the method that replaces drifted, expired and crowded-out nodes.
type drift struct{ *run }

// drift replaces the nodes that have a cause, one command each, within the budgets; pools take turns (see byTurns).
// Empty nodes are removed at once, other nodes once their pods fit elsewhere, preferably on nodes that need no
// replacement themselves. Nodes removed as empty count against the same budget. Searching for capacity uses up steps:
// if they run out, the next call continues from After.
func (r *drift) drift() {
	looked := readLookedAt(r.policy.After.Drifted)
	atOnce := func(n *model.Node) bool { return !occupied(n) && !r.projected.buffered[n.Name] }
	all := r.replaceable(false)
	slices.SortFunc(all, r.byDriftKey)
	for _, n := range r.byTurns(all, looked, atOnce) {
		reason := r.overBudget(n, r.pools[n.Pool].Disruption.AllowedDrifted)
		switch {
		case reason.Rule != "":
		case atOnce(n):
			r.remove(n, r.cause(n))
		case r.unsettled(r.cause(n)).Rule != "":
			reason = r.unsettled(r.cause(n))
		case r.projected.used[n.Name]:
			reason = model.Reason{Rule: model.RuleNeeded, Detail: "moving"}
		case r.policy.After.Underutilized != "" || looked.has(n.Pool, r.driftKey(n)):
			reason = model.Reason{Rule: model.RuleSteps}
		case r.left <= 0:
			r.partial, reason = true, model.Reason{Rule: model.RuleSteps}
		default:
			looked[n.Pool] = r.driftKey(n)
			r.after.Drifted = looked.String()
			reason = r.replace(n)
		}
		if reason.Rule != "" {
			r.keep(n, reason)
		}
	}
}

// driftKey returns the sort key of a node: the time since which it is due for replacement, as upstream
// (pkg/controllers/disruption/drift.go), then its name.
func (r *drift) driftKey(n *model.Node) string {
	_, since := Cause(r.s, &r.pools[n.Pool].Disruption, n)
	return since.UTC().Format(time.RFC3339) + "/" + n.Name
}

func (r *drift) byDriftKey(a, b *model.Node) int { return cmp.Compare(r.driftKey(a), r.driftKey(b)) }

// replace proposes to replace a node, or returns why it cannot be replaced.
func (r *drift) replace(n *model.Node) model.Reason {
	var reason model.Reason
	for _, to := range []destinations{{undrifted: true}, {}} {
		plan := r.whatIf(to, n)
		if len(plan.Unplaced) == 0 {
			if reason := r.noHelp(n, &plan); reason.Rule != "" {
				return reason
			}
			r.command(r.cause(n), []*model.Node{n}, plan)
			return model.Reason{}
		}
		reason = noPlace(plan.Unplaced[0])
	}
	return reason
}

// byTurns orders nodes so that their pools take turns: the first node of each pool, then the second of each. A pool
// with a thousand drifted nodes, or with some that cannot move, delays no other pool. Nodes of a pool stay in their
// order: that of driftKey if the pool's turns go on in a later call, from looked. Pools that have had no turn yet come
// first. Nodes that can be removed at once, or that have had their turn, come before all turns.
func (r *drift) byTurns(all []*model.Node, looked lookedAt, atOnce func(*model.Node) bool) []*model.Node {
	turn, next := make(map[*model.Node]int, len(all)), map[string]int{}
	for _, n := range all {
		if atOnce(n) || looked.has(n.Pool, r.driftKey(n)) {
			continue
		}
		if next[n.Pool] == 0 && looked[n.Pool] != "" {
			next[n.Pool] = 1 // it had its first turn
		}
		next[n.Pool]++
		turn[n] = next[n.Pool]
	}
	slices.SortStableFunc(all, func(a, b *model.Node) int { return cmp.Compare(turn[a], turn[b]) })
	return all
}

// lookedAt maps each pool to the driftKey of the node that was tried last.
type lookedAt map[string]string

// readLookedAt parses a cursor; it ignores what it cannot parse.
func readLookedAt(cursor string) lookedAt {
	out := lookedAt{}
	for _, one := range strings.Split(cursor, ",") {
		if pool, key, ok := strings.Cut(one, "="); ok {
			out[pool] = key
		}
	}
	return out
}

// String formats the cursor.
func (l lookedAt) String() string {
	var all []string
	for _, pool := range slices.Sorted(maps.Keys(l)) {
		all = append(all, pool+"="+l[pool])
	}
	return strings.Join(all, ",")
}

// has reports whether the pool's node with the key has been tried.
func (l lookedAt) has(pool, key string) bool { return key <= l[pool] }

// Cause returns the method that replaces a node even if the node is worth its price, and the time since which the
// method applies; "" if none does. The node has drifted or, if its pool enables that, is too old or has no room for a
// DaemonSet's pod.
func Cause(s *model.Snapshot, d *model.DisruptionPolicy, n *model.Node) (model.Method, time.Time) {
	switch {
	case n.Drifted != "":
		return model.Drifted, n.DriftedSince
	case expired(s, d, n):
		return model.Expired, n.Created.Add(d.SoftExpireAfter)
	case d.ReplaceCrowded && tooFull(n):
		for _, l := range n.MissingDaemons {
			if !s.Now.Before(l.Since.Add(model.CrowdedOutAfter)) {
				return model.CrowdedOut, l.Since
			}
		}
	}
	return "", time.Time{}
}

func (r *run) cause(n *model.Node) model.Method {
	how, _ := Cause(r.s, &r.pools[n.Pool].Disruption, n)
	return how
}

func expired(s *model.Snapshot, d *model.DisruptionPolicy, n *model.Node) bool {
	return d.SoftExpireAfter > 0 && n.Claim != "" && !s.Now.Before(n.Created.Add(d.SoftExpireAfter))
}

// tooFull reports whether pods request more than the node has, including DaemonSet pods that wait for it.
func tooFull(n *model.Node) bool {
	free := n.Free()
	return slices.ContainsFunc(free[:], func(left int64) bool { return left < 0 })
}

// noHelp rejects a plan that replaces a node without room for a DaemonSet's pod with another node of the same type:
// that type has less room than the catalog says.
func (r *drift) noHelp(n *model.Node, plan *model.Plan) model.Reason {
	moving := 0
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			moving++
		}
	}
	if r.cause(n) != model.CrowdedOut || len(plan.Launches) != 1 || len(plan.Launches[0].Pods) < moving {
		return model.Reason{}
	}
	if l := &plan.Launches[0]; slices.Contains(l.Types, n.Type) {
		return model.Reason{Rule: model.RuleNoHelp, Object: n.MissingDaemons[0].DaemonSet, BestOf: n.Type}
	}
	return model.Reason{}
}

// outdated reports whether the node is due for replacement.
func (w *projection) outdated(n *model.Node) bool {
	var d model.DisruptionPolicy // for a node without a pool only drift is known
	if p := w.s.Pool(n.Pool); p != nil {
		d = p.Disruption
	}
	how, _ := Cause(w.s, &d, n)
	return how != ""
}
