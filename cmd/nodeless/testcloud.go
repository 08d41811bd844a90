package main

import (
	"errors"
	"fmt"
	"os"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/status"
)

// testCloud is what the conformance suite tells `nodeless run` beside AWS's own: instance types and kinds of node
// classes. Its flags are hidden; the small build (tag noplane) has them because it is the controller under test.
type testCloud struct {
	types string
	kinds []string
}

func (c *testCloud) add(f *pflag.FlagSet) {
	f.StringVar(&c.types, "types", "", `file of instance types as for "nodeless up": their labels`)
	f.StringSliceVar(&c.kinds, "class-kind", nil,
		"file of a kind of node class beside EC2NodeClass, and of what its objects stand for")
	_ = errors.Join(f.MarkHidden("types"), f.MarkHidden("class-kind"))
}

// typeLabels are the labels of the types, nil for none.
func (c *testCloud) typeLabels() (func(string) map[string]string, error) {
	own, err := readTypes(c.types)
	return typeLabels(own), err
}

func (c *testCloud) classKinds() ([]status.Kind, error) { return readClassKinds(c.kinds) }

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

// readClassKind reads what every object of another kind of node class stands for: apiVersion and kind of those, spec
// of an EC2NodeClass.
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
