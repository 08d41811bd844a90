package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DecisionLog is one piece of the log of Nodeless's decisions and their outcomes. The number of pieces is limited: at
// the limit, a new piece replaces the oldest and takes its name. Only the controller writes the log; "nodeless why",
// "nodeless decisions" and "nodeless savings" read it.
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

	// Piece is the number of this piece in the log, from 1. The piece with the highest number is being written.
	//
	// +kubebuilder:validation:Minimum=1
	Piece int64 `json:"piece"`
	// Entries is the number of entries in the piece.
	//
	// +kubebuilder:validation:Minimum=0
	Entries int32 `json:"entries"`
	// From is the time of the first entry.
	From metav1.Time `json:"from"`
	// To is the time of the last entry.
	To metav1.Time `json:"to"`
	// Data holds the entries: JSON, one per line, compressed with gzip.
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
