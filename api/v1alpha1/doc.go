// Package v1alpha1 holds the kinds of Nodeless itself, group nodeless.sh: FargateProfile, which says what pods get a
// microVM of their own instead of a place on a shared machine; MicroVMHost, a machine that runs microVMs; MicroVM, a
// pod on one; and DecisionLog, in which the controller keeps what it decided.
//
// +kubebuilder:object:generate=true
// +groupName=nodeless.sh
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of all kinds here.
var GroupVersion = schema.GroupVersion{Group: "nodeless.sh", Version: "v1alpha1"}

// AddToScheme makes a scheme know the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &FargateProfile{}, &FargateProfileList{}, &DecisionLog{}, &DecisionLogList{},
		&MicroVMHost{}, &MicroVMHostList{}, &MicroVM{}, &MicroVMList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
