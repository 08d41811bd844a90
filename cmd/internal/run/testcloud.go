//go:build conformance

package run

import (
	"fmt"
	"os"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/status"
)

// The controller that Karpenter's suites test (lab/conformance) accepts instance types and kinds of node classes that
// AWS does not have.
func init() {
	testCloud = func(f *pflag.FlagSet) func(*aws.Options, *controller.Options) error {
		types := f.String("types", "", `file of instance types as for "nodeless up": their labels`)
		kinds := f.StringSlice("class-kind", nil,
			"file of a kind of node class besides EC2NodeClass, and of what its objects stand for")
		return func(provider *aws.Options, o *controller.Options) error {
			for _, file := range *kinds {
				kind, err := readClassKind(file)
				if err != nil {
					return err
				}
				o.ClassKinds = append(o.ClassKinds, kind)
			}
			if *types == "" {
				return nil
			}
			text, err := os.ReadFile(*types)
			if err != nil {
				return fmt.Errorf("--types: %w", err)
			}
			own, err := localcluster.ParseTypes(text)
			provider.TypeLabels = localcluster.TypeLabels(own)
			return err
		}
	}
}

// readClassKind reads another kind of node class and what each of its objects stands for: its apiVersion and kind,
// and the spec of an EC2NodeClass.
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
