package disrupt

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// staticDrift replaces drifted nodes of static pools one for one, as far as limits.nodes has room for one more node
// and the budget allows it (upstream: pkg/controllers/disruption/staticdrift.go). It does not look for places for the
// pods, since the pool keeps its size. A pool with surplus nodes waits. Pools take turns.
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
	none := map[string]model.Reason{} // by pool: why nothing more can be launched
	for _, n := range r.byTurns(all, nil, func(*model.Node) bool { return false }) {
		reason := r.overBudget(n, r.pools[n.Pool].Disruption.AllowedDrifted)
		switch {
		case reason.Rule != "":
		case none[n.Pool].Rule != "":
			reason = none[n.Pool]
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
	r.left -= launchSteps
	launches := solve.StaticLaunches(r.projected.now, r.policy, p.Name, 1, "for "+n.Claim)
	if len(launches) == 0 {
		return noReplacement(p)
	}
	// kube-scheduler finds its pods their places among the pool's nodes
	r.command(r.cause(n), []*model.Node{n}, model.Plan{Launches: launches})
	return model.Reason{}
}

// driftedOf returns the pool's nodes that are to be replaced.
func (r *static) driftedOf(p *model.Pool) []*model.Node {
	return slices.DeleteFunc(r.replaceable(p.Static), func(n *model.Node) bool { return n.Pool != p.Name })
}

// replaceable returns the nodes that are to be replaced and whose pods allow it.
func (r *drift) replaceable(static bool) []*model.Node {
	now := slices.DeleteFunc(r.free(r.candidates, static), func(n *model.Node) bool { return r.cause(n) == "" })
	eventual := slices.DeleteFunc(r.free(r.eventual, static), func(n *model.Node) bool { return n.Drifted == "" })
	return slices.Concat(now, eventual)
}

// byDrift orders nodes that are to be replaced: those without pods first, then by driftKey.
func (r *drift) byDrift(a, b *model.Node) int {
	if full := occupied(b); occupied(a) != full {
		if full {
			return -1
		}
		return 1
	}
	return cmp.Compare(r.driftKey(a), r.driftKey(b))
}

// noReplacement returns why a static pool cannot launch one more node.
func noReplacement(p *model.Pool) model.Reason {
	switch {
	case p.NotReady != "":
		return model.Reason{Rule: model.RulePoolNotReady, Object: p.Name, Detail: p.NotReady}
	case p.Limits.NodesSet && p.NodeCount >= p.Limits.Nodes:
		return model.Reason{Rule: model.RuleLimit, Object: p.Name, Detail: count(int(p.Limits.Nodes))}
	}
	return model.Reason{Rule: model.RuleCapacity, Object: p.Name}
}
