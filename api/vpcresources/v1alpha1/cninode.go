// Package v1alpha1 holds the kind CNINode of EKS's VPC resource controller, group vpcresources.k8s.aws. The fields are
// those that AWS documents (amazon-vpc-resource-controller-k8s, README.md); the definition is Nodeless's own. On EKS
// the control plane installs it.
//
// +kubebuilder:object:generate=true
// +groupName=vpcresources.k8s.aws
// +versionName=v1alpha1
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Group is the API group of CNINode.
const Group = "vpcresources.k8s.aws"

// The features of CNINodes.
const (
	SecurityGroupsForPods = "SecurityGroupsForPods" // the node has a trunk interface
	CustomNetworking      = "CustomNetworking"      // its value is the name of the node's ENIConfig
)

// CNINode lists the features of a node's network that the VPC resource controller provides. It has the node's name and
// is deleted with the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=cninodes,scope=Cluster,shortName=cnd
// +kubebuilder:printcolumn:name="Features",type=string,JSONPath=`.spec.features`
type CNINode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec CNINodeSpec `json:"spec,omitempty"`
}

// CNINodeSpec lists the features.
type CNINodeSpec struct {
	// Features are the features that the VPC resource controller provides.
	// +optional
	Features []Feature `json:"features,omitempty"`
	// Tags are put on the network interfaces that the VPC resource controller creates for the node.
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
}

// Feature is a feature of a node's network.
type Feature struct {
	// Name is SecurityGroupsForPods or CustomNetworking.
	// +optional
	Name string `json:"name,omitempty"`
	// Value of CustomNetworking is the name of the node's ENIConfig.
	// +optional
	Value string `json:"value,omitempty"`
}

// CNINodeList is a list of CNINodes.
//
// +kubebuilder:object:root=true
type CNINodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CNINode `json:"items"`
}
