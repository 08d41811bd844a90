package query

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
)

// Offers is what a pool may launch.
type Offers struct {
	// Offered counts the types that the node class offers, Allowed those that the requirements allow, and Available
	// those that also have capacity now.
	Offered, Allowed, Available int
	Cheapest                    []model.Candidate // the best offering of each available type, by price
	Dearest                     model.Candidate   // of all available offerings; zero if there is none
}

// Pool is what a pool may launch, and for which pods.
type Pool struct {
	Pool *model.Pool
	Offers
	// Launches are for pods that are pending now. Could counts the other pods for which the pool could launch if no
	// other pool did; Refusals are why it cannot for the rest.
	Launches []model.Launch
	Could    int
	Refusals []Refusal
}

// maxCheapest is the number of types in Cheapest.
const maxCheapest = 5

// OfPool returns what a pool may launch, and whether a pool with that name exists.
func OfPool(s *model.Snapshot, policy model.Policy, pool string) (Pool, bool) {
	p := s.Pool(pool)
	if p == nil {
		return Pool{}, false
	}
	v := poolView(s, &policy, p)
	out := Pool{Pool: p, Offers: offers(v)}
	plan := solve.Provision(s, policy).Plan
	taken := map[model.PodKey]bool{}
	for _, l := range plan.Launches {
		if l.Pool != pool {
			continue
		}
		out.Launches = append(out.Launches, l)
		for _, k := range l.Pods {
			taken[k] = true
		}
	}
	verdicts := map[int]model.PoolVerdict{} // by shape
	for _, p := range s.Pending {
		if taken[p.PodKey] || p.Virtual {
			continue
		}
		verdict, known := verdicts[p.Shape]
		if !known {
			verdict = v.Verdict(&s.Shapes[p.Shape], v.Headroom(), s.ResourceNames)
			verdicts[p.Shape] = verdict
		}
		if verdict.Rule == model.RuleSteps {
			out.Could++
			continue
		}
		out.Refusals = count(out.Refusals, model.Reason{
			Rule: verdict.Rule, Object: verdict.Object, Detail: verdict.Detail,
			Best: verdict.Best, BestOf: verdict.BestOf,
		}, p.Namespace+"/"+p.Name)
	}
	out.Refusals = sorted(out.Refusals)
	return out, true
}

func poolView(s *model.Snapshot, policy *model.Policy, p *model.Pool) *rules.View {
	v := rules.NewView(p, s.Daemons)
	v.ApplyPolicy(policy)
	return v
}

// OffersOf returns what a pool of the snapshot may launch, regardless of pods.
func OffersOf(s *model.Snapshot, policy model.Policy, p *model.Pool) Offers {
	return offers(poolView(s, &policy, p))
}

// offers counts the types that the pool allows.
func offers(v *rules.View) Offers {
	p := Offers{Offered: len(v.Pool.Types)}
	for t := range v.Pool.Types {
		if !v.Eligible.Has(t) {
			continue
		}
		p.Allowed++
		best := -1
		for i, f := range v.Offers[t] {
			if !f.Available {
				continue
			}
			if best < 0 || f.Real < v.Offers[t][best].Real {
				best = i
			}
			if f.Real > p.Dearest.Price {
				p.Dearest = v.Candidate(t, &v.Offers[t][i])
			}
		}
		if best < 0 {
			continue
		}
		p.Available++
		p.Cheapest = append(p.Cheapest, v.Candidate(t, &v.Offers[t][best]))
	}
	slices.SortFunc(p.Cheapest, func(a, b model.Candidate) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Type, b.Type))
	})
	p.Cheapest = p.Cheapest[:min(maxCheapest, len(p.Cheapest))]
	return p
}

// Exhausted is an offering that recently had no capacity, and when it is retried.
type Exhausted struct {
	model.OfferingKey
	RetryAt time.Time
}

// ExhaustedOf returns the offerings that a pool of the snapshot allows and that are exhausted at the time now, the
// earliest retry first.
func ExhaustedOf(s *model.Snapshot, policy model.Policy, p *model.Pool, now time.Time) []Exhausted {
	v := poolView(s, &policy, p)
	var out []Exhausted
	for t := range p.Types {
		if !v.Eligible.Has(t) {
			continue
		}
		for i := range v.Offers[t] {
			key := v.Candidate(t, &v.Offers[t][i]).OfferingKey
			for _, f := range p.Types[t].Offerings {
				if f.Zone == key.Zone && f.CapacityType == key.CapacityType && !f.Available && !f.Shifted &&
					f.RetryAt.After(now) {
					out = append(out, Exhausted{key, f.RetryAt})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Exhausted) int {
		return cmp.Or(a.RetryAt.Compare(b.RetryAt), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone),
			cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}
