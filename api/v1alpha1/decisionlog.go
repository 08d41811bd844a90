package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DecisionLog is one piece of the log of what Nodeless decided and what became of it. There are at most so many pieces;
// the newest takes the name of the oldest. It is written by the controller alone and read by "nodeless why", "nodeless
// decisions" and "nodeless savings".
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=decisionlogs,scope=Cluster,categories=nodeless
// +kubebuilder:printcolumn:name="Piece",type=integer,JSONPath=`.piece`
// +kubebuilder:printcolumn:name="Entries",type=integer,JSONPath=`.entries`
// +kubebuilder:printcolumn:name="From",type=date,JSONPath=`.from`
// +kubebuilder:printcolumn:name="To",type=date,JSONPath=`.to`
type DecisionLog struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Piece is the place of this piece in the log, counted from 1. The greatest is the one that is being written.
	//
	// +kubebuilder:validation:Minimum=1
	Piece int64 `json:"piece"`
	// Entries is how many entries there are in it.
	//
	// +kubebuilder:validation:Minimum=0
	Entries int32 `json:"entries"`
	// From and To are the times of the first entry and the last one.
	From metav1.Time `json:"from"`
	To   metav1.Time `json:"to"`
	// Data is the entries: JSON, one on a line, compressed by gzip.
	//
	// +kubebuilder:validation:MaxLength=1048576
	Data []byte `json:"data"`
}

// DecisionLogList is a list of pieces.
//
// +kubebuilder:object:root=true
type DecisionLogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DecisionLog `json:"items"`
}
