package eksv1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CNINode says that a node's network is EKS Auto Mode's. It has the node's name and goes with it.
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

// CNINodeSpec lists what the node's network can do besides giving addresses. Auto Mode has no such feature: it knows no
// security groups for pods and no custom networking.
type CNINodeSpec struct {
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Features []CNINodeFeature `json:"features,omitempty"`
}

// CNINodeFeature is one ability of a node's network.
type CNINodeFeature struct {
	// +required
	Name string `json:"name"`
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
