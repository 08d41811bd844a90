package check

import (
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// launches judges the nodes that a plan launches.
type launches struct{ *judge }

// all: every type of a launch holds its pods and daemons and satisfies them in some available offering; the chosen
// one is the cheapest by the policy, at its real price.
func (j launches) all() {
	ids := map[string]bool{}
	for i := range j.plan.Launches {
		l := &j.plan.Launches[i]
		if ids[l.ID] || l.ID == "" {
			j.fail("identity", "launch "+l.ID, "has no identity of its own")
		}
		ids[l.ID] = true
		c := j.pools[l.Pool]
		if c == nil {
			j.fail("exists", "launch "+l.ID, "pool %q is not in the snapshot", l.Pool)
			continue
		}
		if c.pool.NotReady != "" {
			j.fail("ready", "launch "+l.ID, "pool %s is not ready: %s", l.Pool, c.pool.NotReady)
		}
		if len(l.Types) == 0 || len(l.Types) > j.maxTypes || l.Types[0] != l.Chosen.Type {
			j.fail("types", "launch "+l.ID, "names %d types, at most %d, chosen %s", len(l.Types), j.maxTypes, l.Chosen.Type)
		}
		if len(l.Types) > 0 {
			j.launch(l, c)
		}
	}
}

func (j launches) launch(l *model.Launch, c *catalog) {
	load := j.launchedPods(l, c)
	for _, r := range l.Requirements {
		want, ok := c.pool.Requirements.Get(r.Key)
		if r.Key == model.NodeNameField || r.Impossible() || ok && !want.Overlaps(r) {
			j.fail("pool's requirements", "launch "+l.ID, "%s is not as pool %s says, or impossible for a claim", r.String(),
				l.Pool)
		}
	}
	pods := j.onePerShape(l.Pods)
	custom := c.custom(l.Requirements)
	var last model.Price
	for i, name := range l.Types {
		k := c.kind(name)
		if k == nil || slices.Contains(l.Types[:i], name) {
			j.fail("exists", "launch "+l.ID, "type %s is not of pool %s, or named twice", name, l.Pool)
			continue
		}
		least, ok := j.launchType(l, c, k, j.optionsOf(l)[i], custom, pods, &load)
		if ok && least < last {
			j.fail("price", "launch "+l.ID, "type %s is cheaper than the one before it", name)
		}
		last = max(last, least)
	}
	j.chosen(l, c)
	j.minValues(l, c)
}

// launchedPods judges the pods of a launch one by one, and returns the sum of their requests.
func (j launches) launchedPods(l *model.Launch, c *catalog) (load model.Resources) {
	seen := map[*model.Shape]bool{}
	for _, k := range l.Pods {
		s := j.shape(k)
		if s == nil {
			j.fail("exists", podName(k), "is launched for but has no shape")
			continue
		}
		if p := j.pending[k]; j.belowCutoff(p) {
			j.fail("priority", podName(k), "priority %d is below the cut-off %d, and launch %s is for it", p.Priority,
				j.policy.PriorityCutoff, l.ID)
		}
		load = load.Plus(s.Requests.NonNegative())
		if seen[s] {
			continue
		}
		seen[s] = true
		j.decidable(k, s)
		if t, bad := model.Untolerated(c.pool.Taints, s.Tolerations); bad {
			j.fail("taints", podName(k), "does not tolerate %s=%s:%s of pool %s", t.Key, t.Value, t.Effect, l.Pool)
		}
	}
	return load
}

// optionsOf returns the available offerings of each type of a launch; for a launch from a reservation, the
// reservation.
func (j *judge) optionsOf(l *model.Launch) [][]*option {
	if out := j.options[l]; out != nil {
		return out
	}
	c, out := j.pools[l.Pool], make([][]*option, len(l.Types))
	for i, name := range l.Types {
		k := c.kind(name)
		for x := 0; k != nil && x < len(k.options); x++ {
			w := &k.options[x]
			r := w.reserved(l, c.pool)
			if r != nil {
				w = w.with(r.Labels)
			}
			if (w.offer.Available || r != nil) && allows(l.Requirements, w.labels) && allows(c.pool.Requirements, w.labels) {
				out[i] = append(out[i], w)
			}
		}
	}
	j.options[l] = out
	return out
}

// launchType judges one type of a launch, and returns its lowest price by the policy.
func (j launches) launchType(l *model.Launch, c *catalog, k *kind, options []*option, custom model.Requirements,
	pods []model.PodKey, load *model.Resources,
) (least model.Price, found bool) {
	object := "launch " + l.ID
	for _, w := range options {
		for _, pod := range pods {
			constraints, volumes := j.satisfied(j.shape(pod), w.labels, custom)
			if !constraints {
				j.fail("constraints", podName(pod), "and pods like it are not satisfied by %s in %s %s of %s", k.Name,
					w.offer.Zone, w.offer.CapacityType, object)
			}
			if !volumes {
				j.fail("volume", podName(pod), "has a volume that cannot be attached to %s in %s %s of %s", k.Name, w.offer.Zone,
					w.offer.CapacityType, object)
			}
		}
		total := load.Plus(*j.daemons(c, w))
		if r := total.Shortest(k.Allocatable); r >= 0 {
			j.fail("fits", object, "type %s: resource %d: %d asked, %d allocatable", k.Name, r, total[r], k.Allocatable[r])
		}
		if price := j.policy.Effective(w.offer.Price); !found || price < least {
			least, found = price, true
		}
	}
	if !found {
		j.fail("available", object, "type %s has no offering", k.Name)
	}
	return least, found
}

// onePerShape returns the first pod of each shape: what holds for one holds for all of them.
func (j launches) onePerShape(pods []model.PodKey) []model.PodKey {
	var out []model.PodKey
	seen := map[*model.Shape]bool{}
	for _, k := range pods {
		if s := j.shape(k); s != nil && !seen[s] {
			seen[s] = true
			out = append(out, k)
		}
	}
	return out
}

// daemons returns the requests of the daemons that run on nodes of the pool with this option.
func (j *judge) daemons(c *catalog, w *option) *model.Resources {
	if w.daemons != nil {
		return w.daemons
	}
	var sum model.Resources
	for i := range j.s.Daemons {
		if s := &j.s.Daemons[i].Shape; j.daemonRuns(c, w, s) {
			sum = sum.Plus(s.Requests.NonNegative())
		}
	}
	w.daemons = &sum
	return &sum
}

func (j *judge) daemonRuns(c *catalog, w *option, s *model.Shape) bool {
	if t, bad := model.Untolerated(c.pool.Taints, s.Tolerations); bad && !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
		return false
	}
	have := w.labels.And(c.custom(c.pool.Requirements)).And(model.Requirements{model.OneOf(model.LabelPool, c.pool.Name)})
	return slices.ContainsFunc(j.alternatives(s), func(wants model.Requirements) bool {
		return have.Conflict(wants, nil) == ""
	})
}

// clamp bounds unreasonable prices: negative ones are free, those above a million dollars an hour count as 2^40.
func clamp(p model.Price) model.Price { return min(max(p, 0), 1<<40) }

// chosen: the offering is available at that price and the cheapest of its type; the runner-up exists and is no
// cheaper.
func (j launches) chosen(l *model.Launch, c *catalog) {
	object := "launch " + l.ID
	k := c.kind(l.Chosen.Type)
	if k == nil {
		return
	}
	var mine *option
	least := model.Price(-1)
	for _, w := range j.optionsOf(l)[0] {
		if price := j.policy.Effective(w.offer.Price); least < 0 || price < least {
			least = price
		}
		if mine == nil && w.offer.Zone == l.Chosen.Zone && w.offer.CapacityType == l.Chosen.CapacityType {
			mine = w
		}
	}
	if mine == nil {
		j.fail("price", object, "chosen offering %v cannot be had", l.Chosen.OfferingKey)
		return
	}
	effective := j.policy.Effective(mine.offer.Price)
	if clamp(mine.offer.Price) != l.Chosen.Price || effective != least {
		j.fail("price", object, "chosen %v, offering %v counts for %d, the best for %d", l.Chosen, *mine.offer, effective,
			least)
	}
	if l.RunnerUp == (model.Candidate{}) {
		return
	}
	if second, ok := j.offering(l.RunnerUp); !ok || second < effective {
		j.fail("price", object, "runner-up %v does not exist or is better than %v", l.RunnerUp, l.Chosen)
	}
}

// offering returns the candidate's price by the policy in some pool, and whether it is available at its price.
func (j launches) offering(x model.Candidate) (model.Price, bool) {
	for i := range j.s.Pools {
		k := j.pools[j.s.Pools[i].Name].kind(x.Type)
		if k == nil {
			continue
		}
		for _, w := range k.options {
			if w.offer.Available && w.offer.Zone == x.Zone && w.offer.CapacityType == x.CapacityType &&
				clamp(w.offer.Price) == x.Price {
				return j.policy.Effective(w.offer.Price), true
			}
		}
	}
	return 0, false
}
