package disrupt

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// static holds the methods for nodes of static pools.
type static struct{ *drift }

// surplus removes what static pools have beyond their replicas: first nodes in flight, then empty nodes, then those
// whose pods are cheapest to move, and last those with pods that must not be disrupted. No budget applies (upstream:
// pkg/controllers/static/deprovisioning).
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
				r.keep(n, model.Reason{Rule: model.RuleStatic, Object: p.Name, Detail: count(int(p.Replicas))})
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

// easier orders nodes by what their removal costs; of equals, drifted ones come first, since they will be replaced
// anyway.
func (r *static) easier(a, b *model.Node) int {
	drifted := func(n *model.Node) int {
		if n.Drifted != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(r.lifeCost(a), r.lifeCost(b)), cmp.Compare(drifted(a),
		drifted(b)),
		b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
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

// lifeCost returns what moving the node's pods costs, less the closer the node is to its expiry.
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
