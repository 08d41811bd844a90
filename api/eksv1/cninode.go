package eksv1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CNINode marks a node whose network EKS Auto Mode manages. It has the node's name and is deleted with the node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=cninodes,scope=Cluster,shortName=cnd
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CNINode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec CNINodeSpec `json:"spec,omitempty"`
}

// CNINodeSpec lists the optional features of the node's network. Auto Mode has none: it supports neither security
// groups for pods nor custom networking.
type CNINodeSpec struct {
	// Features are the optional features of the node's network.
	//
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Features []CNINodeFeature `json:"features,omitempty"`
}

// CNINodeFeature is an optional feature of a node's network.
type CNINodeFeature struct {
	// Name of the feature.
	//
	// +required
	Name string `json:"name"`
	// Value is the feature's setting, if it has one.
	//
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
