package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/status"
)

// parseTypes reads types and has all of them checked, also as labels of Nodes: what the API server would refuse of each
// Node is refused here.
func parseTypes(text []byte) (*catalog.Own, error) {
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

// typeLabels are the labels types of one's own have beside EC2's, for the provider. The API then takes requirements on
// them as on EC2's: a node has them from its type, not from its claim.
func typeLabels(own *catalog.Own) func(string) map[string]string {
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

// readTypes reads a file of types; nil for "".
func readTypes(file string) (*catalog.Own, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--types: %w", err)
	}
	own, err := parseTypes(text)
	if err != nil {
		return nil, fmt.Errorf("--types %s: %w", file, err)
	}
	return own, nil
}

func readClassKinds(files []string) ([]status.Kind, error) {
	var kinds []status.Kind
	for _, file := range files {
		kind, err := readClassKind(file)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// readClassKind reads what every object of another kind of node class stands for: apiVersion and kind of those, spec of an
// EC2NodeClass.
func readClassKind(file string) (status.Kind, error) {
	var k struct {
		APIVersion string                 `json:"apiVersion"`
		Kind       string                 `json:"kind"`
		Spec       ec2v1.EC2NodeClassSpec `json:"spec"`
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return status.Kind{}, fmt.Errorf("--class-kind: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		return status.Kind{}, fmt.Errorf("--class-kind %s: %w", file, err)
	}
	version, err := schema.ParseGroupVersion(k.APIVersion)
	if err != nil || version.Group == "" || k.Kind == "" {
		return status.Kind{}, fmt.Errorf("--class-kind %s: needs apiVersion (group/version) and kind", file)
	}
	return status.Kind{
		GroupVersionKind: version.WithKind(k.Kind),
		Spec:             func(*unstructured.Unstructured) ec2v1.EC2NodeClassSpec { return *k.Spec.DeepCopy() },
	}, nil
}
