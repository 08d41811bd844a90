package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// limits: whichever types the launches get, the limits of their pools hold. A launch whose types have none of a
// resource cannot break its limit, even if it was exceeded before.
func (j *judge) limits() {
	planned, launches := map[string]model.Resources{}, map[string]int64{}
	for i := range j.plan.Launches {
		l := &j.plan.Launches[i]
		var largest model.Resources
		for _, name := range l.Types {
			if k := j.pools[l.Pool].kind(name); k != nil {
				largest = largest.Max(k.Capacity)
			}
		}
		planned[l.Pool] = planned[l.Pool].Plus(largest)
		launches[l.Pool]++
	}
	for i := range j.s.Pools {
		p := &j.s.Pools[i]
		if launches[p.Name] == 0 {
			continue
		}
		plus := planned[p.Name]
		for r, set := range p.Limits.Set {
			if total := p.Usage.Plus(plus); set && plus[r] > 0 && total[r] > p.Limits.Max[r] {
				j.fail("limit", "pool "+p.Name, "resource %d: %d used, %d planned, limit %d", r, p.Usage[r], plus[r],
					p.Limits.Max[r])
			}
		}
		if n := launches[p.Name]; p.Limits.NodesSet && max(p.NodeCount, 0)+n > p.Limits.Nodes {
			j.fail("limit", "pool "+p.Name, "%d nodes and %d planned, limit %d", p.NodeCount, n, p.Limits.Nodes)
		}
	}
}

// lowerBound: no plan is cheaper than its stated lower bound.
func (j *judge) lowerBound() {
	var total model.Price
	for i := range j.plan.Launches {
		total += j.policy.Effective(j.plan.Launches[i].Chosen.Price)
	}
	if j.plan.LowerBound > total || j.plan.LowerBound < 0 {
		j.fail("lower bound", "plan", "counts for %d, but is said to cost at least %d", total, j.plan.LowerBound)
	}
}

// minValues: the types of a launch have as many distinct values as the pool requires. Under BestEffort a launch
// states how far it lowers minValues, and lowers them no further than its types require.
func (j launches) minValues(l *model.Launch, c *catalog) {
	relaxed := slices.Clone(l.Relaxed)
	for _, r := range c.pool.Requirements {
		if r.MinValues <= 0 {
			continue
		}
		seen := map[string]bool{}
		for _, options := range j.optionsOf(l) {
			for _, w := range options {
				have, _ := w.labels.Get(r.Key)
				for _, v := range have.Values {
					if r.Has(v) {
						seen[v] = true
					}
				}
			}
		}
		mine, _ := l.Requirements.Get(r.Key)
		said := model.Relaxed{Key: r.Key, From: r.MinValues, To: len(seen)}
		if at := slices.Index(relaxed, said); at >= 0 && said.To < said.From && j.policy.MinValues == model.BestEffort &&
			mine.MinValues == said.To {
			relaxed = slices.Delete(relaxed, at, at+1)
		} else if len(seen) < r.MinValues {
			j.fail("min values", "launch "+l.ID, "%d values of %s, pool %s wants %d", len(seen), r.Key, l.Pool, r.MinValues)
		}
	}
	for _, x := range relaxed {
		j.fail("min values", "launch "+l.ID,
			"lowers minValues of %s from %d to %d, though nothing makes it or the policy forbids it", x.Key, x.From, x.To)
	}
}
