// Package query answers questions about one pod, one machine or one pool of a snapshot with the engine's own decisions: what would
// be decided now, what stands in the way, and what would stand in the way next. It is for people who ask, not for the hot path.
package query

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
	"github.com/nodeless/nodeless/engine/suggest"
)

// Rules besides the model's by which machines that are there refuse a pod.
const (
	RuleDeleting model.Rule = "Going"    // the machine goes
	RuleCordoned model.Rule = "Cordoned" // somebody closed it
	RuleFull     model.Rule = "Full"     // other pods leave too little of a resource
)

// Pod is what becomes of a pod that waits: one of Node, Launch and Reason says it.
type Pod struct {
	Pod    *model.Pod
	Shape  *model.Shape
	Node   *model.Node   // there or on its way, with room for it
	Launch *model.Launch // for it and others
	Reason *model.Reason // why it gets nothing
	// Options are up to mostOptions single changes after which it would have a node, the smallest first: that is Reason.Change.
	Options []suggest.Option
	// Refusals are why machines that are there do not take it now, most first; Open is how many would.
	Refusals []Refusal
	Open     int
}

// Refusal is one reason for which some things refuse.
type Refusal struct {
	Reason model.Reason // without Pools and Change; Best and BestOf are of the first of them
	Count  int
	Such   string // the first of them
}

// OfPod asks what becomes of a pod, and whether it waits at all. Every other pod that waits gets its answer too: they may be before
// it.
func OfPod(s *model.Snapshot, policy model.Policy, key model.PodKey) (Pod, bool) {
	i := slices.IndexFunc(s.Pending, func(p model.Pod) bool { return p.PodKey == key })
	if i < 0 {
		return Pod{}, false
	}
	draft := solve.Provision(s, policy)
	plan := &draft.Plan
	out := Pod{Pod: &s.Pending[i], Shape: &s.Shapes[s.Pending[i].Shape]}
	for _, at := range plan.Placements {
		if n := slices.IndexFunc(s.Nodes, func(n model.Node) bool { return n.Name == at.Node }); at.Pod == key && n >= 0 {
			out.Node = &s.Nodes[n]
		}
	}
	for l := range plan.Launches {
		if slices.Contains(plan.Launches[l].Pods, key) {
			out.Launch = &plan.Launches[l]
		}
	}
	for u := range plan.Unplaced {
		if plan.Unplaced[u].Pod == key {
			reason := draft.ExplainOnly(key)
			out.Reason = &reason
		}
	}
	if out.Reason != nil {
		out.options(s)
	}
	out.Refusals, out.Open = refusals(s, out.Pod.Shape)
	return out, true
}

// mostOptions is how many changes are offered.
const mostOptions = 3

// options finds the changes that would help. A plan has looked for the smallest of some shapes only.
func (p *Pod) options(s *model.Snapshot) {
	all := suggest.Options(s, p.Shape, p.Reason, mostOptions)
	smallest := &p.Reason.Change
	if *smallest == (model.Change{}) && len(all) > 0 {
		*smallest = all[0].Change
	}
	if *smallest == (model.Change{}) {
		return
	}
	first := suggest.Option{Change: *smallest}
	if i := slices.IndexFunc(all, func(o suggest.Option) bool { return o.Change == *smallest }); i >= 0 {
		first = all[i]
		all = slices.Delete(all, i, i+1)
	}
	p.Options = append([]suggest.Option{first}, all...)
	p.Options = p.Options[:min(len(p.Options), mostOptions)]
}

// refusals asks every machine.
func refusals(s *model.Snapshot, shape int) (out []Refusal, open int) {
	state := rules.NewState(s)
	types := map[string][]model.InstanceType{}
	for i := range s.Pools {
		types[s.Pools[i].Name] = s.Pools[i].Types
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		r := refusal(s, &s.Shapes[shape], n, types[n.Pool])
		if rule := state.Allows(shape, i); r.Rule == "" && rule != "" {
			r.Rule = rule
		}
		if r.Rule == "" {
			open++
			continue
		}
		out = count(out, r, n.Name)
	}
	return sorted(out), open
}

// refusal is what a machine's own state, labels, taints and room have against a shape; the zero Reason if nothing.
func refusal(s *model.Snapshot, shape *model.Shape, n *model.Node, types []model.InstanceType) model.Reason {
	if n.Deleting {
		return model.Reason{Rule: RuleDeleting}
	}
	if n.Cordoned {
		return model.Reason{Rule: RuleCordoned}
	}
	if taint, bad := model.Untolerated(n.Taints, shape.Tolerations); bad {
		return model.Reason{Rule: model.RuleTaint, Object: rules.TaintText(taint)}
	}
	if !rules.OnNode(shape, n, types) {
		r := model.Reason{Rule: model.RuleRequirement}
		for _, wants := range rules.Alternatives(shape.Required, shape.AnyOf) {
			if key := n.Labels.Conflict(wants, nil); key != "" {
				want, _ := wants.Get(key)
				r.Object, r.Detail = key, want.String()
				break
			}
		}
		return r
	}
	free := n.Free()
	if r := shape.Requests.Shortest(free); r >= 0 {
		rule := RuleFull
		if shape.Requests[r] > n.Allocatable[r] {
			rule = model.RuleResource
		}
		return model.Reason{Rule: rule, Object: name(s, r)}
	}
	return model.Reason{}
}

func name(s *model.Snapshot, resource int) string {
	if resource < len(s.ResourceNames) {
		return s.ResourceNames[resource]
	}
	return "resource " + model.Quantity("", int64(resource))
}

// count adds one that refuses for the reason.
func count(list []Refusal, r model.Reason, who string) []Refusal {
	for i := range list {
		if l := &list[i].Reason; l.Rule == r.Rule && l.Object == r.Object && l.Detail == r.Detail {
			list[i].Count++
			return list
		}
	}
	return append(list, Refusal{Reason: model.Reason{Rule: r.Rule, Object: r.Object, Detail: r.Detail, Best: r.Best, BestOf: r.BestOf}, Count: 1, Such: who})
}

// sorted puts what most say first, then goes by the words.
func sorted(list []Refusal) []Refusal {
	slices.SortStableFunc(list, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason.Rule, b.Reason.Rule),
			cmp.Compare(a.Reason.Object, b.Reason.Object), cmp.Compare(a.Reason.Detail, b.Reason.Detail))
	})
	return list
}
