package check

import (
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// placements: the machine takes pods, tolerably, under the pod's constraints, and has room for all that are put there.
func (j *judge) placements() {
	load := map[string]model.Resources{}
	for _, p := range j.plan.Placements {
		n, s := j.nodes[p.Node], j.shape(p.Pod)
		if n == nil || s == nil {
			j.fail("exists", podName(p.Pod), "is placed on %q, but one of them is not in the snapshot", p.Node)
			continue
		}
		if len(s.Unmodelled) > 0 {
			j.fail("modelled", podName(p.Pod), "has %s, which is not decided yet", strings.Join(s.Unmodelled, ", "))
		}
		if n.Deleting || n.Cordoned {
			j.fail("takes pods", podName(p.Pod), "is placed on %s, which is deleting or cordoned", n.Name)
		}
		if t, bad := model.Untolerated(n.Taints, s.Tolerations); bad {
			j.fail("taints", podName(p.Pod), "does not tolerate %s=%s:%s of %s", t.Key, t.Value, t.Effect, n.Name)
		}
		if !j.nodeSatisfies(n, s) {
			j.fail("constraints", podName(p.Pod), "is not satisfied by the labels of %s", n.Name)
		}
		load[n.Name] = load[n.Name].Plus(s.Requests.NonNegative())
	}
	for i := range j.s.Nodes {
		n := &j.s.Nodes[i]
		free := n.Allocatable.Minus(n.Used.NonNegative())
		if r := load[n.Name].Shortest(free); r >= 0 {
			j.fail("fits", "node "+n.Name, "resource %d: %d asked, %d free", r, load[n.Name][r], free[r])
		}
	}
}

// nodeSatisfies: for a machine on its way, every machine that it may become must satisfy the pod.
func (j *judge) nodeSatisfies(n *model.Node, s *model.Shape) bool {
	for _, term := range terms(s) {
		if n.State != model.InFlight && n.Labels.Conflict(term, nil) == "" {
			return true
		}
		if n.State == model.InFlight && j.surelySatisfies(n, term) {
			return true
		}
	}
	return false
}

func (j *judge) surelySatisfies(n *model.Node, term model.Requirements) bool {
	for _, want := range term {
		have, ok := n.Labels.Get(want.Key)
		if ok && have.SubsetOf(want) {
			continue
		}
		for _, name := range mayBecome(n) {
			t := j.typeOf(n.Pool, name)
			if t == nil {
				return false
			}
			label, labelled := labelsOf(t, "", "").Get(want.Key)
			if !labelled {
				if ok || !want.AllowsAbsence() {
					return false
				}
				continue
			}
			if ok {
				label = label.And(have)
			}
			if !label.SubsetOf(want) {
				return false
			}
		}
		if len(mayBecome(n)) == 0 {
			return false
		}
	}
	return true
}

func mayBecome(n *model.Node) []string {
	if n.Type != "" {
		return []string{n.Type}
	}
	r, ok := n.Labels.Get(model.LabelInstanceType)
	if !ok || r.Complement {
		return nil
	}
	return r.Values
}

func (j *judge) typeOf(pool, name string) *model.InstanceType {
	p := j.pools[pool]
	if p == nil {
		return nil
	}
	for i := range p.Types {
		if p.Types[i].Name == name {
			return &p.Types[i]
		}
	}
	return nil
}

// terms are the conjunctions of which a pod needs one.
func terms(s *model.Shape) []model.Requirements {
	if len(s.AnyOf) == 0 {
		return []model.Requirements{s.Required}
	}
	var out []model.Requirements
	for _, t := range s.AnyOf {
		out = append(out, s.Required.And(t))
	}
	return out
}

// labelsOf are the labels a type gives to its machine in an offering.
func labelsOf(t *model.InstanceType, zone, capacityType string) model.Requirements {
	own := []model.Requirement{model.OneOf(model.LabelInstanceType, t.Name)}
	if zone != "" {
		own = append(own, model.OneOf(model.LabelZone, zone), model.OneOf(model.LabelCapacityType, capacityType))
	}
	for _, r := range t.Requirements {
		if r.Key != model.LabelInstanceType && (zone == "" || r.Key != model.LabelZone && r.Key != model.LabelCapacityType) {
			own = append(own, r)
		}
	}
	return model.NewRequirements(own...)
}
