// Package v1alpha1 holds the kinds of Nodeless, group nodeless.sh: FargateProfile, which selects pods that get a
// microVM of their own instead of a place on a shared node; MicroVMHost, a host that runs microVMs; MicroVM, a pod on
// one; NodeGroup, an Auto Scaling group that Nodeless sizes; and DecisionLog, in which the controller records its
// decisions.
//
// +kubebuilder:object:generate=true
// +groupName=nodeless.sh
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "nodeless.sh", Version: "v1alpha1"}

// MigrationTaint is the key of the taint on nodes of groups that `nodeless migrate` leaves. Its value is
// MigrationDrain once their pods are to move: nodes are launched for all of them.
const (
	MigrationTaint = "nodeless.sh/migration"
	MigrationDrain = "drain"
)

// RolledAt says when `nodeless roll --force` began: older nodes need an update. It is an annotation of a NodePool's
// template, and a tag of an Auto Scaling group.
const RolledAt = "nodeless.sh/rolled-at"

// RollTaint is the key of the taint on nodes of groups that a roll is to replace: pods prefer others.
const RollTaint = "nodeless.sh/roll"

// DetachedFrom is the tag of instances that `nodeless roll` has detached from a group, whose name is its value, and has
// yet to terminate.
const DetachedFrom = "nodeless.sh/detached-from"

// AddToScheme adds the kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &FargateProfile{}, &FargateProfileList{}, &DecisionLog{}, &DecisionLogList{},
		&MicroVMHost{}, &MicroVMHostList{}, &MicroVM{}, &MicroVMList{}, &NodeGroup{}, &NodeGroupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
