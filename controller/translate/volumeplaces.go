package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// allowedTopologies are the places where a storage class makes volumes. A term without expressions is no place.
func allowedTopologies(terms []corev1.TopologySelectorTerm) []model.Requirements {
	var out []model.Requirements
	for _, t := range terms {
		if len(t.MatchLabelExpressions) == 0 {
			continue
		}
		term := make([]model.Requirement, 0, len(t.MatchLabelExpressions))
		for _, e := range t.MatchLabelExpressions {
			r := model.OneOf(LabelKey(e.Key), e.Values...)
			r.Present = len(e.Values) == 0
			term = append(term, r)
		}
		out = append(out, model.NewRequirements(term...))
	}
	return orNowhere(out, len(terms) > 0)
}

// orNowhere: if places were named and none of them can be, there is none.
func orNowhere(terms []model.Requirements, named bool) []model.Requirements {
	if len(terms) == 0 && named {
		return []model.Requirements{{noNode}}
	}
	slices.SortFunc(terms, compareRequirements)
	return slices.CompactFunc(terms, func(a, b model.Requirements) bool { return compareRequirements(a, b) == 0 })
}

// zoneLabels are the labels by which volumes said where they are before they had node affinity.
var zoneLabels = []string{
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion,
}

// whereIs are the places from which a volume can be used. Field terms do not count in the node affinity of volumes,
// as in kube-scheduler; labels count for claims that the pod names itself.
func whereIs(pv *corev1.PersistentVolume, labelsToo bool) []model.Requirements {
	var terms []model.Requirements
	limited := false
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		limited = true
		for i := range a.Required.NodeSelectorTerms {
			t := &a.Required.NodeSelectorTerms[i]
			if len(t.MatchExpressions) == 0 && len(t.MatchFields) > 0 {
				terms, limited = nil, false // anywhere
				break
			}
			term, err := nodeTerm(&corev1.NodeSelectorTerm{MatchExpressions: t.MatchExpressions})
			if err == nil && len(term) > 0 {
				terms = append(terms, term)
			}
		}
	}
	terms = orNowhere(terms, limited)
	takenOver := pv.Spec.CSI == nil && named(driverOf(pv))
	zoned := func(t model.Requirements) bool { _, ok := t.Get(model.LabelZone); return ok }
	if labelsToo || takenOver && !slices.ContainsFunc(terms, zoned) {
		terms = inZones(terms, pv.Labels, takenOver)
	}
	return terms
}

// named reports whether there is a driver.
func named(driver, _ string) bool { return driver != "" }

// inZones narrows the places of a volume to the zones and regions that its labels name. Nodes without any such label
// will do, but not for volumes that a CSI driver has taken over: then the labels become node affinity.
func inZones(terms []model.Requirements, labels map[string]string, takenOver bool) []model.Requirements {
	var here model.Requirements
	for _, key := range zoneLabels {
		if value, ok := labels[key]; ok {
			// several are joined so
			here = here.And(model.Requirements{model.OneOf(LabelKey(key), strings.Split(value, "__")...)})
		}
	}
	if len(here) == 0 {
		return terms
	}
	if len(terms) == 0 {
		terms = []model.Requirements{nil}
	}
	nowhere := model.Requirements{{Key: model.LabelRegion}, {Key: model.LabelZone}}
	var out []model.Requirements
	for _, t := range terms {
		out = append(out, t.And(here))
		if t = t.And(nowhere); !takenOver && !slices.ContainsFunc(t, model.Requirement.Impossible) {
			out = append(out, t)
		}
	}
	return orNowhere(out, true)
}
