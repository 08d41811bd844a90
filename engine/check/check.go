// Package check is the engine's independent judge: it states every promise of a plan once, in plain slow code that shares
// nothing with the search. It runs in tests, in the simulator and in production before a plan is carried out.
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
}

// Error is the violation as a sentence.
func (v Violation) Error() string { return fmt.Sprintf("%s: %s: %s", v.Promise, v.Object, v.Detail) }

// Plan judges a plan of engine.Provision, of engine.Disrupt, or both in one. A plan that answers no pod is taken as one of
// Disrupt, in which pending pods need no answer; Answered asks for them all.
func Plan(s *model.Snapshot, policy model.Policy, plan model.Plan) []Violation {
	j := &judge{s: s, plan: &plan, maxTypes: policy.MaxTypes}
	if j.maxTypes <= 0 {
		j.maxTypes = 60
	}
	j.index()
	if len(plan.Placements)+len(plan.Launches)+len(plan.Unplaced) > 0 {
		j.answeredOnce()
	}
	j.placements()
	j.launches()
	j.limits()
	j.lowerBound()
	j.removals()
	return j.found
}

// Answered judges only whether each pending pod has exactly one answer in a plan of engine.Provision.
func Answered(s *model.Snapshot, plan model.Plan) []Violation {
	j := &judge{s: s, plan: &plan}
	j.index()
	j.answeredOnce()
	return j.found
}

type judge struct {
	s        *model.Snapshot
	plan     *model.Plan
	maxTypes int
	pending  map[model.PodKey]*model.Pod
	nodes    map[string]*model.Node
	pools    map[string]*model.Pool
	typeKeys map[string]map[string]bool // labels that types decide, by pool; filled when asked for
	found    []Violation
}

func (j *judge) index() {
	j.typeKeys = map[string]map[string]bool{}
	j.pending, j.nodes, j.pools = map[model.PodKey]*model.Pod{}, map[string]*model.Node{}, map[string]*model.Pool{}
	for i := range j.s.Pending {
		j.pending[j.s.Pending[i].PodKey] = &j.s.Pending[i]
	}
	for i := range j.s.Nodes {
		j.nodes[j.s.Nodes[i].Name] = &j.s.Nodes[i]
	}
	for i := range j.s.Pools {
		j.pools[j.s.Pools[i].Name] = &j.s.Pools[i]
	}
}

func (j *judge) fail(promise, object, format string, args ...any) {
	j.found = append(j.found, Violation{promise, object, fmt.Sprintf(format, args...)})
}

func podName(k model.PodKey) string { return "pod " + k.Namespace + "/" + k.Name }

// shape is the shape of a pending pod, nil if there is none.
func (j *judge) shape(k model.PodKey) *model.Shape {
	p := j.pending[k]
	if p == nil || p.Shape < 0 || p.Shape >= len(j.s.Shapes) {
		return nil
	}
	return &j.s.Shapes[p.Shape]
}

// answeredOnce: each pending pod has a place, a launch or a Reason, and only one of them; nobody else has.
func (j *judge) answeredOnce() {
	answers := map[model.PodKey]int{}
	for _, p := range j.plan.Placements {
		answers[p.Pod]++
	}
	for _, l := range j.plan.Launches {
		if len(l.Pods) == 0 {
			j.fail("answered once", "launch "+l.ID, "is for no pod")
		}
		for _, p := range l.Pods {
			answers[p]++
		}
	}
	for _, u := range j.plan.Unplaced {
		answers[u.Pod]++
		if u.Reason.Rule == "" {
			j.fail("reason", podName(u.Pod), "gets nothing and no rule says why")
		}
	}
	for i := range j.s.Pending {
		k := j.s.Pending[i].PodKey
		if n := answers[k]; n != 1 {
			j.fail("answered once", podName(k), "has %d answers", n)
		}
		delete(answers, k)
	}
	strangers := 0
	for range answers { // order does not matter: they are only counted
		strangers++
	}
	if strangers > 0 {
		j.fail("answered once", "plan", "answers %d pods that are not pending", strangers)
	}
}
