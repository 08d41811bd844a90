package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// nodes are the nodes of a snapshot and, after them, those that were added since. A node is identified by its index.
type nodes struct {
	s     *model.Snapshot
	added []model.Node
	types map[string][]model.InstanceType // by pool
}

func newNodes(s *model.Snapshot) *nodes {
	ns := &nodes{s: s, types: make(map[string][]model.InstanceType, len(s.Pools))}
	for i := range s.Pools {
		ns.types[s.Pools[i].Name] = s.Pools[i].Types
	}
	return ns
}

// Nodes returns the number of nodes, including added ones.
func (ns *nodes) Nodes() int { return len(ns.s.Nodes) + len(ns.added) }

// Node returns a node by its index. It must not be changed.
func (ns *nodes) Node(i int) *model.Node {
	if i < len(ns.s.Nodes) {
		return &ns.s.Nodes[i]
	}
	return &ns.added[i-len(ns.s.Nodes)]
}

// Satisfies reports whether a node's labels and name satisfy the requirements. It is slow; the caller caches.
func (ns *nodes) Satisfies(node int, wants model.Requirements) bool {
	n := ns.Node(node)
	for i := range wants {
		if wants[i].Key != model.NodeNameField {
			continue
		}
		if n.State == model.InFlight && !anyName(wants[i]) || n.State != model.InFlight && !wants[i].Has(n.Name) {
			return false
		}
		rest := make(model.Requirements, 0, len(wants)-1)
		wants = append(append(rest, wants[:i]...), wants[i+1:]...)
		break
	}
	if len(wants) == 0 {
		return true
	}
	var candidates []*model.InstanceType
	if n.State == model.InFlight {
		candidates = possibleTypes(n, ns.types[n.Pool])
	}
	return labelsHold(n, wants, candidates)
}

// attachLimit returns the node's limit for a driver. For a node in flight without one it is the lowest of its
// possible types.
func (ns *nodes) attachLimit(node int, driver string) (int64, bool) {
	n := ns.Node(node)
	if most, ok := model.AttachLimitOf(n.AttachLimits, driver); ok || n.State != model.InFlight {
		return most, ok
	}
	least, limited := int64(0), false
	for _, t := range possibleTypes(n, ns.types[n.Pool]) {
		if most, ok := model.AttachLimitOf(t.AttachLimits, driver); ok && (!limited || most < least) {
			least, limited = most, true
		}
	}
	return least, limited
}

// volumesReach reports whether each volume is accessible from the node.
func (ns *nodes) volumesReach(list []model.Volume, node int) bool {
	for i := range list {
		topology := list[i].Topology
		if len(topology) > 0 && !slices.ContainsFunc(topology, func(rs model.Requirements) bool {
			return ns.Satisfies(node, rs)
		}) {
			return false
		}
	}
	return true
}

// anyName reports whether a node whose name is not known yet satisfies the requirement: listed names are already
// taken.
func anyName(want model.Requirement) bool {
	return want.Complement && want.Gte == nil && want.Lte == nil
}

// OnNode reports whether the labels and taints of a node let the shape run there; it ignores resources. types is the
// catalog of the node's pool, nil if unknown.
func OnNode(s *model.Shape, n *model.Node, types []model.InstanceType) bool {
	if n.Deleting || n.Cordoned {
		return false
	}
	if _, bad := model.Untolerated(n.Taints, s.Tolerations); bad {
		return false
	}
	if len(s.Required) == 0 && len(s.AnyOf) == 0 {
		return true
	}
	var candidates []*model.InstanceType
	if n.State == model.InFlight {
		candidates = possibleTypes(n, types)
	}
	for _, wants := range Alternatives(s.Required, s.AnyOf) {
		if labelsHold(n, wants, candidates) {
			return true
		}
	}
	return false
}

// labelsHold reports whether the node's labels satisfy the requirements. A node in flight only has sets of possible
// values, all of which must satisfy them.
func labelsHold(n *model.Node, wants model.Requirements, candidates []*model.InstanceType) bool {
	if n.State != model.InFlight {
		return n.Labels.Conflict(wants, nil) == ""
	}
	for _, w := range wants {
		have, ok := n.Labels.Get(w.Key)
		if ok && have.SubsetOf(w) {
			continue
		}
		if !typesHold(candidates, have, ok, w) {
			return false
		}
	}
	return true
}

// typesHold reports whether the label satisfies the requirement whichever of the candidate types the node will have.
// Nothing is certain about unknown types.
func typesHold(candidates []*model.InstanceType, have model.Requirement, known bool, want model.Requirement) bool {
	if len(candidates) == 0 {
		return false
	}
	for _, t := range candidates {
		label, ok := TypeLabel(t, want.Key)
		switch {
		case ok && known && !label.Overlaps(have): // the claim excludes what the type says
			return false
		case ok && known:
			label = label.And(have)
		case !ok && known:
			return false
		case !ok && !want.AllowsAbsence():
			return false
		case !ok:
			continue
		}
		if !label.SubsetOf(want) {
			return false
		}
	}
	return true
}

// possibleTypes returns the types that a node in flight may have, nil if one of them is not in the catalog.
func possibleTypes(n *model.Node, types []model.InstanceType) []*model.InstanceType {
	names := []string{n.Type}
	if n.Type == "" {
		r, ok := n.Labels.Get(model.LabelInstanceType)
		if !ok || r.Complement {
			return nil
		}
		names = r.Values
	}
	var out []*model.InstanceType
	for _, name := range names {
		t := findType(types, name)
		if t == nil {
			return nil
		}
		out = append(out, t)
	}
	return out
}

func findType(types []model.InstanceType, name string) *model.InstanceType {
	for i := range types {
		if types[i].Name == name {
			return &types[i]
		}
	}
	return nil
}
