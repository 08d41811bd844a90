package methods

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/pack"
)

// staticDrift replaces drifted machines of static pools one for one, so far as limits.nodes leaves room for a further machine
// and the budget allows it (upstream: pkg/controllers/disruption/staticdrift.go). Where the pods go is not asked: the pool is
// as large as before. While the pool has too many machines it waits.
func (r *run) staticDrift() {
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		if !p.Static || int64(len(r.running(p))) > p.Replicas {
			continue
		}
		for _, n := range r.driftedOf(p) {
			if reason := r.overBudget(n, p.Disruption.AllowedDrifted); reason.Rule != "" {
				r.keep(n, reason)
				continue
			}
			launches := pack.Static(r.world.now, r.policy, p.Name, 1, "for "+n.Claim)
			if len(launches) == 0 {
				r.keep(n, noReplacement(&r.world.now.Pools[i]))
				continue
			}
			overlay := r.world.open(destinations{}).Leaving(map[string]bool{n.Name: true})
			overlay.Pending = nil // kube-scheduler finds them their places among the pool's machines
			r.command(model.Drifted, []*model.Node{n}, overlay, model.Plan{Launches: launches})
		}
	}
}

// driftedOf are the pool's drifted machines: empty ones first, then the oldest.
func (r *run) driftedOf(p *model.Pool) []*model.Node {
	all := slices.Concat(r.free(r.candidates, p.Static), r.free(r.eventual, p.Static))
	all = slices.DeleteFunc(all, func(n *model.Node) bool { return n.Pool != p.Name || n.Drifted == "" })
	slices.SortFunc(all, byAge)
	return all
}

// byAge orders machines that drifted: those without pods first, then the oldest.
func byAge(a, b *model.Node) int {
	return cmp.Or(cmp.Compare(min(occupants(a), 1), min(occupants(b), 1)), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// noReplacement says why a static pool cannot launch one more machine.
func noReplacement(p *model.Pool) model.Reason {
	switch {
	case p.NotReady != "":
		return model.Reason{Rule: model.RulePoolNotReady, Object: p.Name, Detail: p.NotReady}
	case p.Limits.NodesSet && p.NodeCount >= p.Limits.Nodes:
		return model.Reason{Rule: model.RuleLimit, Object: p.Name, Detail: count(int(p.Limits.Nodes))}
	}
	return model.Reason{Rule: model.RuleCapacity, Object: p.Name}
}
