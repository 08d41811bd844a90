// Package v1alpha1 holds the kinds of Nodeless, group nodeless.sh: FargateProfile, which selects pods that run in a
// microVM of their own instead of on a shared node; MicroVMHost, a host that runs microVMs; MicroVM, a pod on such a
// host; NodeGroup, an Auto Scaling group that Nodeless sizes; and DecisionLog, in which the controller records its
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

// MigrationTaint is the key of the taint that `nodeless migrate` puts on the nodes of the groups it migrates from. With
// the value MigrationDrain, Nodeless launches nodes for the pods that are already there.
const (
	MigrationTaint = "nodeless.sh/migration"
	MigrationDrain = "drain"
)

// RolledAt is the key of the time at which `nodeless roll --force` began; nodes that are older need an update. It is an
// annotation of a NodePool's template and a tag of an Auto Scaling group.
const RolledAt = "nodeless.sh/rolled-at"

// RollTaint is the key of the taint on nodes of groups that a roll will replace. Its effect is PreferNoSchedule.
const RollTaint = "nodeless.sh/roll"

// DetachedFrom is the key of the tag on instances that `nodeless roll` has detached from a group but not yet
// terminated. Its value is the group's name.
const DetachedFrom = "nodeless.sh/detached-from"

// AddToScheme adds the kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &FargateProfile{}, &FargateProfileList{}, &DecisionLog{}, &DecisionLogList{},
		&MicroVMHost{}, &MicroVMHostList{}, &MicroVM{}, &MicroVMList{}, &NodeGroup{}, &NodeGroupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
