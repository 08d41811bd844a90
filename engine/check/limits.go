package check

import "github.com/nodeless/nodeless/engine/model"

// limits: whatever types the launches become, their pool's limits hold. A launch whose type has nothing of a resource
// cannot break its limit, even where it was broken before.
func (j *judge) limits() {
	for i := range j.s.Pools {
		p := &j.s.Pools[i]
		planned, launches := model.Resources{}, int64(0)
		for k := range j.plan.Launches {
			l := &j.plan.Launches[k]
			if l.Pool != p.Name {
				continue
			}
			var largest model.Resources
			for _, name := range l.Types {
				if t := j.typeOf(p.Name, name); t != nil {
					largest = largest.Max(t.Capacity)
				}
			}
			planned = planned.Plus(largest)
			launches++
		}
		if launches == 0 {
			continue
		}
		for r, set := range p.Limits.Set {
			if total := p.Usage.Plus(planned); set && planned[r] > 0 && total[r] > p.Limits.Most[r] {
				j.fail("limit", "pool "+p.Name, "resource %d: %d used, %d planned, limit %d", r, p.Usage[r], planned[r], p.Limits.Most[r])
			}
		}
		if p.Limits.NodesSet && max(p.NodeCount, 0)+launches > p.Limits.Nodes {
			j.fail("limit", "pool "+p.Name, "%d nodes and %d planned, limit %d", p.NodeCount, launches, p.Limits.Nodes)
		}
	}
}

// lowerBound: no plan is cheaper than what is said to be the least.
func (j *judge) lowerBound() {
	var total model.Price
	for _, l := range j.plan.Launches {
		total += l.Chosen.Price
	}
	if j.plan.LowerBound > total {
		j.fail("lower bound", "plan", "costs %d, but is said to cost at least %d", total, j.plan.LowerBound)
	}
}
