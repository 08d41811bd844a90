package loadbalancer

import (
	_ "embed" // the definitions are a file
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

//go:embed crds.yaml
var definitions string

// CRDs returns the definitions of the kinds that the controller reads beside Kubernetes' own. They must exist before
// Run.
func CRDs() []*apiextensionsv1.CustomResourceDefinition {
	var all []*apiextensionsv1.CustomResourceDefinition
	for text := range strings.SplitSeq(definitions, "\n---\n") {
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
			panic(fmt.Sprintf("embedded definition: %v", err)) // a test reads them
		}
		all = append(all, d)
	}
	return all
}

// The kinds beside Kubernetes' own: the AWS Load Balancer Controller's, and EKS Auto Mode's.
var (
	lbcVersion      = schema.GroupVersion{Group: "elbv2.k8s.aws", Version: "v1beta1"}
	autoModeVersion = schema.GroupVersion{Group: "eks.amazonaws.com", Version: "v1"}

	bindings       = lbcVersion.WithResource("targetgroupbindings")
	params         = lbcVersion.WithResource("ingressclassparams")
	autoModeParams = autoModeVersion.WithResource("ingressclassparams")
)
