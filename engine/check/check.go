// Package check is the engine's independent judge. It states every promise of a plan once, in plain, slow code that
// shares nothing with the search. It runs in tests, in the simulator, and in production before a plan is applied.
//
// Constraints between pods hold at the moment a pod is bound, as in kube-scheduler. The judge therefore looks for an
// order in which the pods of the plan can be bound one after another, each allowed at its turn (order.go). What does
// not depend on the order (anti-affinity, ports, volumes) is judged in the end state.
package check

import (
	"fmt"

	"github.com/nodeless/nodeless/engine/model"
)

// Violation is a promise that a plan breaks.
type Violation struct {
	Promise string // such as "answered once", "fits", "limit"
	Object  string // the pod, launch or node that shows it
	Detail  string
	// Unproven means that no order was found in which the pods can be bound, but not all were tried and nothing shows
	// that there is none. Such a plan may be right.
	Unproven bool
}

// Error formats the violation as a sentence.
func (v Violation) Error() string { return fmt.Sprintf("%s: %s: %s", v.Promise, v.Object, v.Detail) }

// Plan judges a plan of engine.Provision, of engine.Disrupt, or both in one. A plan without answers counts as one of
// Disrupt, in which pending pods need none; Answered requires them.
func Plan(s *model.Snapshot, policy model.Policy, plan model.Plan) []Violation {
	j := newJudge(s, policy, &plan)
	if len(plan.Placements)+len(plan.Launches)+len(plan.Unplaced) > 0 {
		a := answers{j}
		a.answeredOnce()
		a.reasons()
	}
	j.placements()
	launches{j}.all()
	j.limits()
	j.reservations()
	j.addresses(plan.Launches)
	j.addressed(plan.Launches)
	j.lowerBound()
	d := newDisruption(j)
	d.removals()
	d.moves()
	if len(plan.Placements)+len(plan.Launches) > 0 { // pods that run already break no promise to each other
		newCoexistence(j).all()
	}
	return j.found
}

// Answered judges only whether each pending pod has exactly one answer in a plan of engine.Provision.
func Answered(s *model.Snapshot, plan model.Plan) []Violation {
	j := newJudge(s, model.Policy{}, &plan)
	answers{j}.answeredOnce()
	return j.found
}

// judge holds the facts that all judges share: the snapshot, the policy, the plan, and the violations found. One type
// for each kind of promise embeds it.
type judge struct {
	s        *model.Snapshot
	policy   model.Policy
	plan     *model.Plan
	maxTypes int
	pending  map[model.PodKey]*model.Pod // expected ones too
	nodes    map[string]*model.Node      // filled on demand
	pools    map[string]*catalog
	terms    map[*model.Shape][]model.Requirements // filled on demand
	options  map[*model.Launch][][]*option         // filled on demand
	found    []Violation
}

func newJudge(s *model.Snapshot, policy model.Policy, plan *model.Plan) *judge {
	j := &judge{
		s: s, policy: policy, plan: plan, maxTypes: policy.MaxTypes,
		pending: map[model.PodKey]*model.Pod{}, pools: map[string]*catalog{},
		terms: map[*model.Shape][]model.Requirements{}, options: map[*model.Launch][][]*option{},
	}
	if j.maxTypes <= 0 {
		j.maxTypes = 60
	}
	for i := range s.Expected {
		j.pending[s.Expected[i].PodKey] = &s.Expected[i]
	}
	for i := range s.Pending {
		j.pending[s.Pending[i].PodKey] = &s.Pending[i]
	}
	for i := range s.Pools {
		j.pools[s.Pools[i].Name] = newCatalog(&s.Pools[i])
	}
	return j
}

func (j *judge) fail(promise, object, format string, args ...any) {
	j.found = append(j.found, Violation{Promise: promise, Object: object, Detail: fmt.Sprintf(format, args...)})
}

func podName(k model.PodKey) string { return "pod " + k.Namespace + "/" + k.Name }

// shape returns the shape of a pending pod, nil if there is none.
func (j *judge) shape(k model.PodKey) *model.Shape {
	p := j.pending[k]
	if p == nil {
		return nil
	}
	return j.shapeAt(p.Shape)
}

func (j *judge) shapeAt(i int) *model.Shape {
	if i < 0 || i >= len(j.s.Shapes) {
		return nil
	}
	return &j.s.Shapes[i]
}
