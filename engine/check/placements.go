package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// placements: the node accepts pods, satisfies the constraints of those placed there, and has room for all of them.
func (j *judge) placements() {
	load := map[string]model.Resources{}
	type pair struct {
		node  string
		shape *model.Shape
	}
	judged := map[pair]bool{}
	for _, p := range j.plan.Placements {
		n, s := j.node(p.Node), j.shape(p.Pod)
		if n == nil || s == nil {
			j.fail("exists", podName(p.Pod), "is placed on %q, but the pod or the node is not in the snapshot", p.Node)
			continue
		}
		load[n.Name] = load[n.Name].Plus(s.Requests.NonNegative())
		if !judged[pair{n.Name, s}] {
			judged[pair{n.Name, s}] = true
			j.placement(p.Pod, n, s)
		}
	}
	for i := range j.s.Nodes {
		n := &j.s.Nodes[i]
		free := n.Allocatable.Minus(n.Used.NonNegative())
		if r := load[n.Name].Shortest(free); r >= 0 {
			j.fail("fits", "node "+n.Name, "resource %d: %d asked, %d free", r, load[n.Name][r], free[r])
		}
	}
}

func (j *judge) placement(k model.PodKey, n *model.Node, s *model.Shape) {
	j.decidable(k, s)
	if n.Deleting || n.Cordoned && (n.State == model.InFlight || !toleratesCordon(s)) {
		j.fail("takes pods", podName(k), "is placed on %s, which is deleting or cordoned", n.Name)
	}
	if t, bad := model.Untolerated(n.Taints, s.Tolerations); bad {
		j.fail("taints", podName(k), "does not tolerate %s=%s:%s of %s", t.Key, t.Value, t.Effect, n.Name)
	}
	if !slices.ContainsFunc(j.alternatives(s), func(wants model.Requirements) bool { return j.nodeSatisfies(n, wants) }) {
		j.fail("constraints", podName(k), "is not satisfied by the labels of %s", n.Name)
	}
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if len(v.Topology) > 0 && !slices.ContainsFunc(v.Topology,
			func(wants model.Requirements) bool { return j.nodeSatisfies(n, wants) }) {
			j.fail("volume", podName(k), "volume %s cannot be attached to %s", v.ID, n.Name)
		}
	}
}

// toleratesCordon treats a cordoned node as kube-scheduler does: as a tainted one.
func toleratesCordon(s *model.Shape) bool {
	_, bad := model.Untolerated([]model.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: model.NoSchedule}},
		s.Tolerations)
	return !bad
}

// anyName reports whether a node whose name is not known yet satisfies the requirement.
func anyName(want model.Requirement) bool {
	return want.Complement && want.Gte == nil && want.Lte == nil
}

// nodeSatisfies reports whether the node satisfies the requirements; a node in flight must satisfy them whatever it
// becomes.
func (j *judge) nodeSatisfies(n *model.Node, wants model.Requirements) bool {
	for _, want := range wants {
		switch have, ok := n.Labels.Get(want.Key); {
		case want.Key == model.NodeNameField && n.State == model.InFlight:
			if !anyName(want) {
				return false
			}
		case want.Key == model.NodeNameField:
			if !want.Has(n.Name) {
				return false
			}
		case n.State == model.InFlight:
			if !j.surely(n, have, ok, want) {
				return false
			}
		case ok && !have.Overlaps(want), !ok && !want.AllowsAbsence():
			return false
		}
	}
	return true
}

// surely reports whether the label of a node in flight satisfies the requirement, whatever it becomes.
func (j *judge) surely(n *model.Node, have model.Requirement, ok bool, want model.Requirement) bool {
	if ok && have.SubsetOf(want) {
		return true
	}
	names := mayBecome(n)
	for _, name := range names {
		t := j.pools[n.Pool].kind(name)
		if t == nil {
			return false
		}
		label, labelled := t.bare.Get(want.Key)
		switch {
		case !labelled && (ok || !want.AllowsAbsence()):
			return false
		case !labelled:
			continue
		case ok:
			label = label.And(have)
		}
		if !label.SubsetOf(want) {
			return false
		}
	}
	return len(names) > 0
}

// mayBecome returns the types that a node in flight may have, none if unknown.
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

// node returns the node of the name, nil if there is none.
func (j *judge) node(name string) *model.Node {
	if j.nodes == nil {
		j.nodes = make(map[string]*model.Node, len(j.s.Nodes))
		for i := range j.s.Nodes {
			j.nodes[j.s.Nodes[i].Name] = &j.s.Nodes[i]
		}
	}
	return j.nodes[name]
}
