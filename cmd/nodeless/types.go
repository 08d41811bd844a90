package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/status"
)

// typesFile keeps the types of one's own that a cluster was made with.
func typesFile(dir string) string { return filepath.Join(dir, "region", "types.json") }

// settleTypes reads --types; a cluster that is there keeps the types it was made with.
func (o *upOptions) settleTypes() error {
	kept, err := os.ReadFile(typesFile(o.dataDir))
	switch {
	case err == nil && o.typesFile == "":
		if o.types, err = parseTypes(kept); err != nil {
			return fmt.Errorf("%s, with which the cluster was made: %w; put it right, or make another cluster with --data-dir", typesFile(o.dataDir), err)
		}
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR): // that is said when the folder is opened
		return fmt.Errorf("the types with which the cluster was made: %w", err)
	case o.typesFile == "":
		return nil
	}
	text, err := os.ReadFile(o.typesFile)
	if err != nil {
		return fmt.Errorf("--types: %w", err)
	}
	if _, err := os.Stat(regionFile(o.dataDir)); err == nil && !bytes.Equal(text, kept) {
		return fmt.Errorf("--types %s: the cluster in %s was made with other types; leave the flag out, or make another cluster with --data-dir", o.typesFile, o.dataDir)
	}
	if o.types, err = parseTypes(text); err != nil {
		return fmt.Errorf("--types %s: %w", o.typesFile, err)
	}
	o.typesText = text
	return nil
}

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

// offers are what the region offers; nil for what AWS does.
func (o *upOptions) offers() (*catalog.Region, error) {
	if o.types == nil {
		return nil, nil
	}
	return o.types.Region()
}

// keepTypes remembers the types for the next start.
func (o *upOptions) keepTypes() error {
	if o.typesText == nil {
		return nil
	}
	return os.WriteFile(typesFile(o.dataDir), o.typesText, 0o600)
}

// fit takes from a NodePool what types of one's own do not have: EC2's categories and generations.
func (l *local) fit(object *unstructured.Unstructured) {
	path := []string{"spec", "template", "spec", "requirements"}
	requirements, found, _ := unstructured.NestedSlice(object.Object, path...)
	if l.o.types == nil || !found {
		return
	}
	requirements = slices.DeleteFunc(requirements, func(r any) bool {
		m, _ := r.(map[string]any)
		key, _ := m["key"].(string)
		return strings.HasPrefix(key, "karpenter.k8s.aws/")
	})
	_ = unstructured.SetNestedSlice(object.Object, requirements, path...) // it was a slice a moment ago
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
