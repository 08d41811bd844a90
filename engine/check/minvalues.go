package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// minValues: the types of a launch have so many distinct values as the pool wants; under BestEffort it says of those that it
// does not keep what it lowers them to, and that is no lower than what the types have.
func (j *judge) minValues(l *model.Launch, c *catalog) {
	relaxed := slices.Clone(l.Relaxed)
	for _, r := range c.pool.Requirements {
		if r.MinValues <= 0 {
			continue
		}
		seen := map[string]bool{}
		for _, ways := range j.waysOf(l) {
			for _, w := range ways {
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
		if at := slices.Index(relaxed, said); at >= 0 && said.To < said.From && j.policy.MinValues == model.BestEffort && mine.MinValues == said.To {
			relaxed = slices.Delete(relaxed, at, at+1)
		} else if len(seen) < r.MinValues {
			j.fail("min values", "launch "+l.ID, "%d values of %s, pool %s wants %d", len(seen), r.Key, l.Pool, r.MinValues)
		}
	}
	for _, x := range relaxed {
		j.fail("min values", "launch "+l.ID, "lowers minValues of %s from %d to %d, though nothing makes it or the policy forbids it", x.Key, x.From, x.To)
	}
}
