// Package eksv1 holds the kinds of EKS Auto Mode, group eks.amazonaws.com: NodeClass, which configures nodes whose
// image and kubelet EKS chooses, and CNINode, which describes a node's network. The fields are those that AWS documents
// (Amazon EKS user guide, "Create a Node Class for Amazon EKS"); the definitions are Nodeless's own.
//
// +kubebuilder:object:generate=true
// +groupName=eks.amazonaws.com
// +versionName=v1
package eksv1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "eks.amazonaws.com", Version: "v1"}

// Kind is the kind of NodeClass.
const Kind = "NodeClass"

// TerminationFinalizer keeps a NodeClass until no NodeClaim uses it.
const TerminationFinalizer = "eks.amazonaws.com/termination"

// LabelComputeType is a label of every Auto Mode node; its value is ComputeTypeAuto.
const (
	LabelComputeType = "eks.amazonaws.com/compute-type"
	ComputeTypeAuto  = "auto"
)

// Label returns the key that an instance type's label has on Auto Mode nodes: Karpenter's key with EKS's prefix (Amazon
// EKS user guide, "Create a Node Pool for EKS Auto Mode", supported labels). It returns other keys unchanged.
func Label(key string) string {
	if name, ok := strings.CutPrefix(key, "karpenter.k8s.aws/instance-"); ok {
		return GroupVersion.Group + "/instance-" + name
	}
	return key
}

// AddToScheme adds the kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodeClass{}, &NodeClassList{}, &CNINode{}, &CNINodeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
