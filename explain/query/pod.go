// Package query answers questions about one pod, node or pool of a snapshot by running the engine: what it would
// decide now, what prevents another decision, and what would prevent it next. It serves people, not the hot path.
package query

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
	"github.com/nodeless/nodeless/engine/suggest"
)

// Rules, besides the model's, by which existing nodes refuse a pod.
const (
	RuleDeleting model.Rule = "Going"    // the node is being removed
	RuleCordoned model.Rule = "Cordoned" // the node is cordoned
	RuleFull     model.Rule = "Full"     // other pods leave too little of a resource
)

// Pod says what happens to a pending pod: one of Node, Launch and Reason is set.
type Pod struct {
	Pod    *model.Pod
	Shape  *model.Shape
	Node   *model.Node   // existing or in flight, with room for the pod
	Launch *model.Launch // for this pod and possibly others
	Reason *model.Reason // why it gets nothing
	// Options are up to maxOptions changes, each of which alone would give the pod a node, smallest first. The first is
	// Reason.Change.
	Options []suggest.Option
	// Refusals are why existing nodes do not accept it now, the most frequent first; Open is the number of nodes that
	// would.
	Refusals []Refusal
	Open     int
}

// Refusal is one reason that several nodes or pods have in common.
type Refusal struct {
	Reason model.Reason // without Pools and Change; Best and BestOf are those of the first
	Count  int
	Such   string // the first of these nodes or pods
}

// OfPod returns what happens to a pod, and whether it is pending at all. The answer takes all pending pods into
// account: others may come first.
func OfPod(s *model.Snapshot, policy model.Policy, key model.PodKey) (Pod, bool) {
	i := slices.IndexFunc(s.Pending, func(p model.Pod) bool { return p.PodKey == key })
	if i < 0 {
		return Pod{}, false
	}
	draft := solve.Provision(s, policy)
	plan := &draft.Plan
	out := Pod{Pod: &s.Pending[i], Shape: &s.Shapes[s.Pending[i].Shape]}
	for _, at := range plan.Placements {
		if n := s.NodeIndex(at.Node); at.Pod == key && n >= 0 {
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

// maxOptions bounds the number of changes in Pod.Options.
const maxOptions = 3

// options finds the changes that would help. A plan searches for the smallest change for some shapes only.
func (p *Pod) options(s *model.Snapshot) {
	all := suggest.Options(s, p.Shape, nil, nil, p.Reason, maxOptions)
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
	p.Options = p.Options[:min(len(p.Options), maxOptions)]
}

// refusals checks the shape against every node.
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

// refusal returns why a node's state, labels, taints or resources exclude a shape; the zero Reason if they do not.
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
		return model.Reason{Rule: rule, Object: model.ResourceName(s.ResourceNames, r)}
	}
	return model.Reason{}
}

// count counts one more refusal for the reason.
func count(list []Refusal, r model.Reason, who string) []Refusal {
	for i := range list {
		if l := &list[i].Reason; l.Rule == r.Rule && l.Object == r.Object && l.Detail == r.Detail {
			list[i].Count++
			return list
		}
	}
	return append(list, Refusal{Reason: model.Reason{
		Rule: r.Rule, Object: r.Object, Detail: r.Detail, Best: r.Best,
		BestOf: r.BestOf,
	}, Count: 1, Such: who})
}

// sorted puts the most frequent refusals first, then orders by text.
func sorted(list []Refusal) []Refusal {
	slices.SortStableFunc(list, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason.Rule, b.Reason.Rule),
			cmp.Compare(a.Reason.Object, b.Reason.Object), cmp.Compare(a.Reason.Detail, b.Reason.Detail))
	})
	return list
}
