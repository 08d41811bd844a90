package rules

import "github.com/nodeless/nodeless/engine/model"

// Score returns the weight of the preferences that the labels satisfy. A preference never excludes a node.
func Score(preferred []model.Preference, labels model.Requirements) int64 {
	var score int64
	for _, p := range preferred {
		if labels.Conflict(p.Terms, nil) == "" {
			score += int64(p.Weight)
		}
	}
	return score
}

// LabelsOf returns the labels that a node of the type gets in the pool with an offering.
func (v *View) LabelsOf(t int, o Offer) model.Requirements {
	rs := v.Requirements.And(v.Pool.Types[t].Requirements)
	return rs.And(model.Requirements{
		model.OneOf(model.LabelCapacityType, v.Capacities[o.Capacity]),
		model.OneOf(model.LabelInstanceType, v.Pool.Types[t].Name),
		model.OneOf(model.LabelZone, v.Zones[o.Zone]),
	})
}
