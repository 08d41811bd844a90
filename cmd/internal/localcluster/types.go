package localcluster

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
)

// ParseTypes parses custom instance types and validates them, also as labels of Nodes: it rejects what the API server
// would reject for each Node.
func ParseTypes(text []byte) (*catalog.Own, error) {
	own, err := catalog.ReadOwn(text)
	if err != nil {
		return nil, err
	}
	if _, err := own.Region(); err != nil {
		return nil, err
	}
	for _, zone := range own.Zones {
		if bad := validation.IsValidLabelValue(zone); len(bad) > 0 {
			return nil, fmt.Errorf("zone %q: %s", zone, bad[0])
		}
	}
	for _, t := range own.Types {
		if bad := validation.IsValidLabelValue(t.Name); len(bad) > 0 {
			return nil, fmt.Errorf("type %q: %s", t.Name, bad[0])
		}
		for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
			if bad := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(t.Labels[key])...); len(bad) > 0 {
				return nil, fmt.Errorf("type %q: labels: %q: %q: %s", t.Name, key, t.Labels[key], bad[0])
			}
		}
	}
	return own, nil
}

// TypeLabels returns the labels that custom types have besides EC2's, for the provider. The API then accepts
// requirements on them as on EC2's: a node gets them from its type, not from its NodeClaim.
func TypeLabels(own *catalog.Own) func(string) map[string]string {
	if own == nil {
		return nil
	}
	for _, t := range own.Types {
		for key := range t.Labels {
			karpv1.WellKnownLabels.Insert(key)
		}
	}
	return own.Labels
}
