package check

import (
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// launches: every type that a launch names bears the pods and daemons and satisfies them in some offering that is there;
// the chosen one is the cheapest, at its real price.
func (j *judge) launches() {
	ids := map[string]bool{}
	for i := range j.plan.Launches {
		l := &j.plan.Launches[i]
		if ids[l.ID] || l.ID == "" {
			j.fail("identity", "launch "+l.ID, "has no identity of its own")
		}
		ids[l.ID] = true
		pool := j.pools[l.Pool]
		switch {
		case pool == nil:
			j.fail("exists", "launch "+l.ID, "pool %q is not in the snapshot", l.Pool)
			continue
		case pool.NotReady != "":
			j.fail("ready", "launch "+l.ID, "pool %s is not ready: %s", l.Pool, pool.NotReady)
		}
		if len(l.Types) == 0 || len(l.Types) > j.maxTypes || l.Types[0] != l.Chosen.Type {
			j.fail("types", "launch "+l.ID, "names %d types, at most %d, chosen %s", len(l.Types), j.maxTypes, l.Chosen.Type)
			continue
		}
		j.launch(l, pool)
	}
}

func (j *judge) launch(l *model.Launch, pool *model.Pool) {
	var load model.Resources
	for _, k := range l.Pods {
		s := j.shape(k)
		if s == nil {
			j.fail("exists", podName(k), "is launched for but has no shape")
			continue
		}
		if len(s.Unmodelled) > 0 {
			j.fail("modelled", podName(k), "has %s, which is not decided yet", strings.Join(s.Unmodelled, ", "))
		}
		if t, bad := model.Untolerated(pool.Taints, s.Tolerations); bad {
			j.fail("taints", podName(k), "does not tolerate %s=%s:%s of pool %s", t.Key, t.Value, t.Effect, pool.Name)
		}
		load = load.Plus(s.Requests.NonNegative())
	}
	if key := pool.Requirements.Conflict(poolPart(l.Requirements, pool), func(string) bool { return true }); key != "" {
		j.fail("pool's requirements", "launch "+l.ID, "key %s is not as pool %s says", key, pool.Name)
	}
	var last model.Price
	for i, name := range l.Types {
		least, ok := j.launchType(l, pool, name, load)
		if ok && least < last {
			j.fail("price", "launch "+l.ID, "type %s is cheaper than the one before it", name)
		}
		if ok && i == 0 && least != l.Chosen.Price {
			j.fail("price", "launch "+l.ID, "chosen at %d, but %s can be had for %d", l.Chosen.Price, name, least)
		}
		last = max(last, least)
	}
	j.chosen(l, pool)
	j.minValues(l, pool)
}

// poolPart are the requirements of a launch on the keys that its pool names.
func poolPart(rs model.Requirements, pool *model.Pool) model.Requirements {
	var out model.Requirements
	for _, r := range rs {
		if _, ok := pool.Requirements.Get(r.Key); ok {
			out = append(out, r)
		}
	}
	return out
}

// launchType judges one type of a launch and gives its least price.
func (j *judge) launchType(l *model.Launch, pool *model.Pool, name string, load model.Resources) (model.Price, bool) {
	t := j.typeOf(pool.Name, name)
	if t == nil {
		j.fail("exists", "launch "+l.ID, "type %s is not of pool %s", name, pool.Name)
		return 0, false
	}
	least, found := model.Price(0), false
	pods := j.onePerShape(l.Pods)
	for _, o := range t.Offerings {
		labels := labelsOf(t, o.Zone, o.CapacityType)
		if !o.Available || !j.mayHave(l, pool, labels) {
			continue
		}
		for _, k := range pods {
			if s := j.shape(k); s != nil && !j.satisfies(l, pool, labels, s) {
				j.fail("constraints", podName(k), "and pods like it are not satisfied by %s in %s %s of launch %s", name, o.Zone, o.CapacityType, l.ID)
			}
		}
		total := load.Plus(j.daemons(pool, labels))
		if r := total.Shortest(t.Allocatable); r >= 0 {
			j.fail("fits", "launch "+l.ID, "type %s: resource %d: %d asked, %d allocatable", name, r, total[r], t.Allocatable[r])
		}
		if price := clamp(o.Price); !found || price < least {
			least, found = price, true
		}
	}
	if !found {
		j.fail("available", "launch "+l.ID, "type %s has no offering", name)
	}
	return least, found
}

// clamp is how prices beyond reason are read: below zero as free, above a million dollars an hour as 2^40.
func clamp(p model.Price) model.Price { return min(max(p, 0), 1<<40) }

// mayHave: the machine may get these labels of type and offering under the launch's and its pool's requirements.
func (j *judge) mayHave(l *model.Launch, pool *model.Pool, labels model.Requirements) bool {
	for _, rs := range []model.Requirements{l.Requirements, pool.Requirements} {
		for _, r := range rs {
			have, ok := labels.Get(r.Key)
			if ok && !have.Overlaps(r) {
				return false
			}
		}
	}
	return true
}

// satisfies: type and offering decide their labels, the launch's own requirements the rest.
func (j *judge) satisfies(l *model.Launch, pool *model.Pool, labels model.Requirements, s *model.Shape) bool {
	have := labels
	for _, r := range l.Requirements {
		if _, ok := labels.Get(r.Key); !ok && !j.typeKey(pool, r.Key) {
			have = have.And(model.Requirements{r})
		}
	}
	for _, term := range terms(s) {
		if have.Conflict(term, nil) == "" {
			return true
		}
	}
	return false
}

// typeKey: some type of the pool has the label, so that the type decides it.
func (j *judge) typeKey(pool *model.Pool, key string) bool {
	keys := j.typeKeys[pool.Name]
	if keys == nil {
		keys = map[string]bool{}
		for i := range pool.Types {
			for _, r := range pool.Types[i].Requirements {
				keys[r.Key] = true
			}
		}
		j.typeKeys[pool.Name] = keys
	}
	return keys[key]
}

// onePerShape is the first pod of each shape: what holds for one holds for all of them.
func (j *judge) onePerShape(pods []model.PodKey) []model.PodKey {
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

// daemons are the requests of the daemons that run on a machine with these labels.
func (j *judge) daemons(pool *model.Pool, labels model.Requirements) model.Resources {
	var sum model.Resources
	have := labels
	for _, r := range pool.Requirements {
		if _, ok := labels.Get(r.Key); !ok && !j.typeKey(pool, r.Key) {
			have = have.And(model.Requirements{r})
		}
	}
	have = have.And(model.Requirements{model.OneOf(model.LabelPool, pool.Name)})
	for i := range j.s.Daemons {
		s := &j.s.Daemons[i].Shape
		if t, bad := model.Untolerated(pool.Taints, s.Tolerations); bad && !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			continue
		}
		for _, term := range terms(s) {
			if have.Conflict(term, nil) == "" {
				sum = sum.Plus(s.Requests.NonNegative())
				break
			}
		}
	}
	return sum
}

// chosen: the offering exists, is available and has that price; the runner-up is not cheaper.
func (j *judge) chosen(l *model.Launch, pool *model.Pool) {
	t := j.typeOf(pool.Name, l.Chosen.Type)
	if t == nil {
		return
	}
	for _, o := range t.Offerings {
		if o.Zone == l.Chosen.Zone && o.CapacityType == l.Chosen.CapacityType {
			if !o.Available || clamp(o.Price) != l.Chosen.Price {
				j.fail("price", "launch "+l.ID, "chosen %v, offering %v", l.Chosen, o)
			}
			if l.RunnerUp.Type != "" && l.RunnerUp.Price < l.Chosen.Price {
				j.fail("price", "launch "+l.ID, "runner-up %v is cheaper than %v", l.RunnerUp, l.Chosen)
			}
			return
		}
	}
	j.fail("exists", "launch "+l.ID, "chosen offering %v does not exist", l.Chosen.OfferingKey)
}

// minValues: the types of a launch have so many distinct values as the pool wants.
func (j *judge) minValues(l *model.Launch, pool *model.Pool) {
	for _, r := range pool.Requirements {
		if r.MinValues <= 0 {
			continue
		}
		seen := map[string]bool{}
		for _, name := range l.Types {
			t := j.typeOf(pool.Name, name)
			if t == nil {
				continue
			}
			for _, o := range t.Offerings {
				labels := labelsOf(t, o.Zone, o.CapacityType)
				have, ok := labels.Get(r.Key)
				if !ok || !o.Available || !j.mayHave(l, pool, labels) {
					continue
				}
				for _, v := range have.Values {
					seen[v] = seen[v] || r.Has(v)
				}
			}
		}
		count := 0
		for _, ok := range seen { // order does not matter: they are counted
			if ok {
				count++
			}
		}
		if count < r.MinValues {
			j.fail("min values", "launch "+l.ID, "%d values of %s, pool %s wants %d", count, r.Key, pool.Name, r.MinValues)
		}
	}
}
