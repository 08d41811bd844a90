package crds

import (
	"github.com/awslabs/operatorpkg/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	apicrds "github.com/nodeless/nodeless/api/crds"
)

// VPCCNI returns the definitions of the VPC CNI's ENIConfig, and of the VPC resource controller's SecurityGroupPolicy
// and CNINode. On EKS the add-on vpc-cni and the control plane install their own, which must not be replaced.
func VPCCNI() (out []*apiextensionsv1.CustomResourceDefinition) {
	for _, text := range [][]byte{apicrds.ENIConfig, apicrds.SecurityGroupPolicy, apicrds.VPCNode} {
		out = append(out, object.Unmarshal[apiextensionsv1.CustomResourceDefinition](text))
	}
	return out
}
