package crds

import (
	"github.com/awslabs/operatorpkg/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	apicrds "github.com/nodeless/nodeless/api/crds"
)

// VPCCNI gives the definition of the VPC CNI's ENIConfig. On EKS the add-on vpc-cni brings its own, which must not be
// replaced.
func VPCCNI() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{
		object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.ENIConfig),
	}
}
