package engine

import (
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// keepMinimum limits a pool's budgets to the nodes beyond the pool's minimum. A node whose replacement joins the same
// pool counts too: the two are not exchanged at the same moment.
func keepMinimum(s *model.Snapshot, p *model.Pool) {
	if p.MinNodes <= 0 {
		return
	}
	d := &p.Disruption
	for _, allowed := range []*int{&d.AllowedEmpty, &d.AllowedDrifted, &d.AllowedUnderused} {
		*allowed = min(*allowed, int(beyondMinimum(s, p))) // shut stays shut
	}
}

// beyondMinimum returns how many nodes the pool has beyond its minimum.
func beyondMinimum(s *model.Snapshot, p *model.Pool) int64 {
	running := int64(0)
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Pool == p.Name && n.Claim != "" && !n.Deleting {
			running++
		}
	}
	return max(running-p.MinNodes, 0)
}

// usedUp returns why a pool may lose no further node: it is at its minimum, or its budget is used up.
func (r *run) usedUp(pool string, allowed int) model.Reason {
	if p := r.pools[pool]; p.MinNodes > 0 && int64(r.gone[pool]) >= beyondMinimum(r.s, p) {
		return model.Reason{Rule: model.RuleMinNodes, Object: pool, Detail: strconv.FormatInt(p.MinNodes, 10)}
	}
	return model.Reason{Rule: model.RuleBudget, Object: pool, Detail: strconv.Itoa(max(allowed, 0))}
}
