package translate

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// betaLabels are old names of well-known labels that manifests and volumes still use
// (sigs.k8s.io/karpenter/pkg/scheduling/requirement.go).
var betaLabels = map[string]string{
	"failure-domain.beta.kubernetes.io/zone":   model.LabelZone,
	"failure-domain.beta.kubernetes.io/region": model.LabelRegion,
	"beta.kubernetes.io/arch":                  model.LabelArch,
	"beta.kubernetes.io/os":                    model.LabelOS,
	"beta.kubernetes.io/instance-type":         model.LabelInstanceType,
	// The EBS driver's name for the zone; it labels nodes only when it runs.
	"topology.ebs.csi.aws.com/zone": model.LabelZone,
}

// LabelKey returns the engine's name of a label: the current one for old names of well-known labels.
func LabelKey(key string) string { return cmp.Or(betaLabels[key], key) }

// Requirements translates spec.requirements of a NodePool's template or a NodeClaim. The error names the entry.
func Requirements(spec []karpv1.NodeSelectorRequirementWithMinValues) (model.Requirements, error) {
	out := make([]model.Requirement, 0, len(spec))
	for i, s := range spec {
		r, err := model.NewRequirement(LabelKey(s.Key), model.Operator(s.Operator), s.Values...)
		if err != nil {
			return nil, fmt.Errorf("spec.requirements[%d]: %w", i, err)
		}
		if s.MinValues != nil {
			r.MinValues = *s.MinValues
		}
		out = append(out, r)
	}
	return model.NewRequirements(out...), nil
}

// ToSpec returns the Kubernetes form of requirements, with an entry for each operator that a requirement needs.
func ToSpec(rs model.Requirements) []karpv1.NodeSelectorRequirementWithMinValues {
	out := make([]karpv1.NodeSelectorRequirementWithMinValues, 0, len(rs))
	for _, r := range rs {
		first := len(out)
		add := func(op model.Operator, values ...string) {
			out = append(out, karpv1.NodeSelectorRequirementWithMinValues{
				Key:      r.Key,
				Operator: corev1.NodeSelectorOperator(op), Values: values,
			})
		}
		bounds := r.Gte != nil || r.Lte != nil
		switch {
		case r.IsDoesNotExist():
			add(model.DoesNotExist)
		case r.Impossible():
			add(model.Exists)
			add(model.DoesNotExist)
		case !r.Complement:
			add(model.In, r.Values...)
		case len(r.Values) > 0:
			add(model.NotIn, r.Values...)
			if r.Present && !bounds {
				add(model.Exists)
			}
		case !bounds:
			add(model.Exists)
		}
		if r.Gte != nil {
			add(model.Gte, strconv.FormatInt(*r.Gte, 10))
		}
		if r.Lte != nil {
			add(upperBound(*r.Lte))
		}
		if r.MinValues > 0 {
			out[first].MinValues = &r.MinValues
		}
	}
	return out
}

// upperBound expresses "at most n" in the non-negative integers that the API accepts: at most −1 is less than 0.
func upperBound(n int64) (model.Operator, string) {
	if n < 0 {
		return model.Lt, "0"
	}
	return model.Lte, strconv.FormatInt(n, 10)
}

// Labels returns labels as requirements: each key In [value].
func Labels(labels map[string]string) model.Requirements {
	out := make([]model.Requirement, 0, len(labels))
	for k, v := range labels {
		out = append(out, model.Requirement{Key: k, Values: []string{v}})
	}
	return model.NewRequirements(out...)
}
