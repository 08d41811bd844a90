package query

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
)

// Waiting says what happens to the pending pods of one shape, and how each pool answers them.
type Waiting struct {
	Shape *model.Shape
	Such  model.PodKey // the first of these pods
	Pods  int
	// Room, Launching and Nothing count the pods that fit on a node that exists or is in flight, those that get a
	// launch, and those that get neither.
	Room, Launching, Nothing int
	Reason                   *model.Reason // of the first pod that gets nothing
	Pools                    []PoolAnswer  // in the order of the snapshot
}

// PoolAnswer is a pool's answer to pods of one shape.
type PoolAnswer struct {
	Launching int               // pods for which it launches a node
	Could     bool              // it could launch nodes for more of them
	Verdict   model.PoolVerdict // why it could not
}

// All returns what happens to all pending pods, by shape: shapes with the most unplaced pods first, then with the
// most pods.
func All(s *model.Snapshot, policy model.Policy) []Waiting {
	plan := solve.Provision(s, policy).Explained()
	launched := map[model.PodKey]int{} // index of the pool, by pod
	for _, l := range plan.Launches {
		for _, key := range l.Pods {
			launched[key] = slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == l.Pool })
		}
	}
	refused := map[model.PodKey]*model.Reason{}
	for i := range plan.Unplaced {
		refused[plan.Unplaced[i].Pod] = &plan.Unplaced[i].Reason
	}
	views := make([]*rules.View, len(s.Pools))
	for i := range s.Pools {
		views[i] = rules.NewView(&s.Pools[i], s.Daemons)
		views[i].ApplyPolicy(&policy)
	}
	rows := map[int]*Waiting{}
	var order []int
	for _, p := range s.Pending {
		if p.Virtual {
			continue
		}
		w := rows[p.Shape]
		if w == nil {
			w = &Waiting{Shape: &s.Shapes[p.Shape], Such: p.PodKey, Pools: answers(s, views, p.Shape)}
			rows[p.Shape], order = w, append(order, p.Shape)
		}
		w.Pods++
		pool, launching := launched[p.PodKey]
		reason := refused[p.PodKey]
		switch {
		case launching:
			w.Launching++
			if pool >= 0 {
				w.Pools[pool].Launching++
			}
		case reason != nil:
			w.Nothing++
			w.Reason = cmp.Or(w.Reason, reason)
		default:
			w.Room++
		}
	}
	out := make([]Waiting, len(order))
	for i, shape := range order {
		rows[shape].Pools = blocked(rows[shape])
		out[i] = *rows[shape]
	}
	slices.SortStableFunc(out, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(b.Nothing, a.Nothing), cmp.Compare(b.Pods, a.Pods))
	})
	return out
}

// blocked returns the pools' answers to a shape. If something that no pool can change keeps all of its pods waiting,
// such as a missing volume, then no pool could launch a node for them.
func blocked(w *Waiting) []PoolAnswer {
	if w.Reason == nil || len(w.Reason.Pools) > 0 || w.Launching > 0 || w.Reason.Rule.Transient() {
		return w.Pools
	}
	for i := range w.Pools {
		if p := &w.Pools[i]; p.Could {
			r := w.Reason
			p.Could = false
			p.Verdict = model.PoolVerdict{
				Pool: p.Verdict.Pool, Rule: r.Rule, Object: r.Object, Detail: r.Detail,
				Best: r.Best, BestOf: r.BestOf, Funnel: p.Verdict.Funnel,
			}
		}
	}
	return w.Pools
}

// answers returns every pool's answer to a shape.
func answers(s *model.Snapshot, views []*rules.View, shape int) []PoolAnswer {
	out := make([]PoolAnswer, len(views))
	for i, v := range views {
		verdict := v.Verdict(&s.Shapes[shape], v.Headroom(), s.ResourceNames)
		out[i] = PoolAnswer{Could: verdict.Rule == model.RuleSteps, Verdict: verdict}
	}
	return out
}
