// Package vpccni holds the kind ENIConfig of the VPC CNI, group crd.k8s.amazonaws.com. The fields are those that AWS
// documents (Amazon EKS user guide, "Deploy Pods in alternate subnets with custom networking"); the definition is
// Nodeless's own. On EKS the VPC CNI installs it.
//
// +kubebuilder:object:generate=true
// +groupName=crd.k8s.amazonaws.com
// +versionName=v1alpha1
package vpccni

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of ENIConfig.
var GroupVersion = schema.GroupVersion{Group: "crd.k8s.amazonaws.com", Version: "v1alpha1"}

// ENIConfig configures custom networking: it determines the subnet and security groups of the network interfaces for
// pods on the nodes that select it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=eniconfigs,scope=Cluster
type ENIConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ENIConfigSpec `json:"spec,omitempty"`
}

// ENIConfigSpec is the subnet and the security groups of the interfaces.
type ENIConfigSpec struct {
	// Subnet is the ID of a subnet in the nodes' zone.
	// +required
	Subnet string `json:"subnet"`
	// SecurityGroups are the IDs of security groups; the default is the node's.
	// +optional
	SecurityGroups []string `json:"securityGroups,omitempty"`
}

// ENIConfigList is a list of ENIConfigs.
//
// +kubebuilder:object:root=true
type ENIConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ENIConfig `json:"items"`
}

// AddToScheme adds the kind to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ENIConfig{}, &ENIConfigList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
