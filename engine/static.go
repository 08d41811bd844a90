package engine

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// static holds the methods for nodes of static pools.
type static struct{ *drift }

// surplus removes the nodes that static pools have beyond their replicas: first nodes in flight, then empty nodes,
// then those whose pods are cheapest to move, and last those with pods that must not be disrupted. No budget applies
// (upstream: pkg/controllers/static/deprovisioning).
func (r *static) surplus() {
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		if !p.Static {
			continue
		}
		running := r.running(p)
		surplus := min(max(int64(len(running))-max(p.Replicas, 0), 0), int64(len(running)))
		slices.SortFunc(running, r.easier)
		for _, n := range running[:surplus] {
			r.remove(n, model.Overprovisioned)
		}
		for _, n := range running[surplus:] {
			if reason, ok := r.reasons[n.Name]; !ok || reason.Rule == model.RuleNeeded {
				r.keep(n, model.Reason{Rule: model.RuleStatic, Object: p.Name, Detail: strconv.Itoa(int(p.Replicas))})
			}
		}
	}
}

// running returns a static pool's nodes that are not being removed.
func (r *static) running(p *model.Pool) []*model.Node {
	var out []*model.Node
	for i := range r.s.Nodes {
		if n := &r.s.Nodes[i]; n.Claim != "" && n.Pool == p.Name && !n.Deleting {
			out = append(out, n)
		}
	}
	return out
}

// easier orders nodes by what their removal costs. Drifted nodes come before equals, since they will be replaced
// anyway.
func (r *static) easier(a, b *model.Node) int {
	drifted := func(n *model.Node) int {
		if n.Drifted != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(r.lifeCost(a), r.lifeCost(b)),
		cmp.Compare(drifted(a), drifted(b)), b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
}

func rank(n *model.Node) int {
	switch {
	case n.State == model.InFlight:
		return 0
	case slices.ContainsFunc(n.Pods, func(p model.BoundPod) bool {
		return p.DoNotDisrupt && !p.Terminal && !p.Terminating
	}):
		return 3
	case occupied(n):
		return 2
	}
	return 1
}

// lifeCost returns the cost of moving the node's pods, reduced in proportion to the life that the node has left.
func (r *static) lifeCost(n *model.Node) int64 {
	cost := int64(0)
	for i := range n.Pods {
		if p := &n.Pods[i]; !p.Daemon && !p.Terminal {
			cost += int64(p.EvictionCost)
		}
	}
	whole := n.Expires.Sub(n.Created)
	if n.Expires.IsZero() || whole <= 0 {
		return cost
	}
	left := min(max(n.Expires.Sub(r.s.Now), 0), whole)
	return cost * int64(left/time.Second) / max(int64(whole/time.Second), 1)
}

// staticDrift replaces drifted nodes of static pools one for one, within limits.nodes and the budget (upstream:
// pkg/controllers/disruption/staticdrift.go). It does not search for places for the pods, since the pool keeps its
// size. A pool with surplus nodes waits. Pools take turns.
func (r *static) staticDrift() {
	var all []*model.Node
	at := map[string]int{} // pools, by name
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		if p.Static && int64(len(r.running(p))) <= p.Replicas {
			at[p.Name] = i
			all = append(all, r.driftedOf(p)...)
		}
	}
	slices.SortFunc(all, r.byDrift)
	none := map[string]model.Reason{} // by pool: why nothing more can be launched
	for _, n := range r.byTurns(all, nil, func(*model.Node) bool { return false }) {
		reason := r.overBudget(n, r.pools[n.Pool].Disruption.AllowedDrifted)
		switch {
		case reason.Rule != "":
		case none[n.Pool].Rule != "":
			reason = none[n.Pool]
		case r.unsettled(r.cause(n)).Rule != "":
			reason = r.unsettled(r.cause(n))
		case r.left <= 0:
			r.partial, reason = true, model.Reason{Rule: model.RuleSteps}
		default:
			reason = r.replaceStatic(&r.projected.now.Pools[at[n.Pool]], n)
			none[n.Pool] = reason
		}
		if reason.Rule != "" {
			r.keep(n, reason)
		}
	}
}

// replaceStatic proposes a node of the pool in place of n, or returns why none can be launched.
func (r *static) replaceStatic(p *model.Pool, n *model.Node) model.Reason {
	launches := solve.StaticLaunches(r.projected.now, r.policy, p.Name, 1, "for "+n.Claim)
	if len(launches) == 0 {
		return noReplacement(p)
	}
	r.left -= launchSteps
	// kube-scheduler places its pods on the pool's nodes
	r.command(r.cause(n), []*model.Node{n}, model.Plan{Launches: launches})
	return model.Reason{}
}

// driftedOf returns the pool's nodes that are due for replacement.
func (r *static) driftedOf(p *model.Pool) []*model.Node {
	return slices.DeleteFunc(r.replaceable(p.Static), func(n *model.Node) bool { return n.Pool != p.Name })
}

// replaceable returns the nodes that are due for replacement and whose pods allow it.
func (r *drift) replaceable(static bool) []*model.Node {
	now := slices.DeleteFunc(r.free(r.candidates, static), func(n *model.Node) bool { return r.cause(n) == "" })
	eventual := slices.DeleteFunc(r.free(r.eventual, static), func(n *model.Node) bool { return n.Drifted == "" })
	return slices.Concat(now, eventual)
}

// byDrift orders nodes that are due for replacement: those without pods first, then by driftKey.
func (r *drift) byDrift(a, b *model.Node) int {
	if full := occupied(b); occupied(a) != full {
		if full {
			return -1
		}
		return 1
	}
	return r.byDriftKey(a, b)
}

// noReplacement returns why a static pool cannot launch one more node.
func noReplacement(p *model.Pool) model.Reason {
	switch {
	case p.NotReady != "":
		return model.Reason{Rule: model.RulePoolNotReady, Object: p.Name, Detail: p.NotReady}
	case p.Limits.NodesSet && p.NodeCount >= p.Limits.Nodes:
		return model.Reason{Rule: model.RuleLimit, Object: p.Name, Detail: strconv.Itoa(int(p.Limits.Nodes))}
	}
	return model.Reason{Rule: model.RuleCapacity, Object: p.Name}
}
