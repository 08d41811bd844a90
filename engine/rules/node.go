package rules

import "github.com/nodeless/nodeless/engine/model"

// OnNode reports whether the labels and taints of an existing machine, or one on its way, let the shape run there. Room
// is another matter. types is the catalogue of the node's pool, nil if not known.
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

// labelsHold reports whether the node's labels satisfy the wants. Of a machine in flight only a set of possible values is
// known; all of them must do.
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

// typesHold reports whether the label is as wanted whichever of the candidate types the machine will be. Of types that are
// not known nothing is sure.
func typesHold(candidates []*model.InstanceType, have model.Requirement, known bool, want model.Requirement) bool {
	if len(candidates) == 0 {
		return false
	}
	for _, t := range candidates {
		label, ok := TypeLabel(t, want.Key)
		switch {
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

// possibleTypes are those that a machine in flight may become, nil if one of them is not in the catalogue.
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
