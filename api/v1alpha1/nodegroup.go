package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeGroup is an Auto Scaling group of EC2 whose size Nodeless sets. NodePools refer to it as their node class: its
// launch template and its tags say what its nodes are, its minimum and maximum how many there may be.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodegroups,scope=Cluster,categories={nodeless,karpenter}
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.autoScalingGroupName`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.status.minSize`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.status.maxSize`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredSize`
// +kubebuilder:printcolumn:name="Types",type=string,JSONPath=`.status.instanceTypes`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   NodeGroupSpec   `json:"spec"`
	Status NodeGroupStatus `json:"status,omitempty"`
}

// NodeGroupList is a list of node groups.
//
// +kubebuilder:object:root=true
type NodeGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeGroup `json:"items"`
}

// NodeGroupSpec names the group.
type NodeGroupSpec struct {
	// AutoScalingGroupName is the name of the group in EC2 Auto Scaling.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the nodes belong to the group; create another NodeGroup for another group"
	AutoScalingGroupName string `json:"autoScalingGroupName"`
}

// NodeGroupStatus is what AWS says about the group.
type NodeGroupStatus struct {
	// MinSize, MaxSize and DesiredSize are the group's, in instances.
	MinSize     int32 `json:"minSize,omitempty"`
	MaxSize     int32 `json:"maxSize,omitempty"`
	DesiredSize int32 `json:"desiredSize,omitempty"`
	// Instances is how many instances the group has, those that are starting or ending included.
	Instances int32 `json:"instances,omitempty"`

	// InstanceTypes are those that the group may launch, in its own order. Of several, pods are given no more room than
	// the smallest has.
	InstanceTypes []string `json:"instanceTypes,omitempty"`
	// CapacityTypes are on-demand, spot, or both.
	CapacityTypes []string `json:"capacityTypes,omitempty"`
	// Subnets are where the group launches.
	Subnets []NodeGroupSubnet `json:"subnets,omitempty"`
	// ImageID is the AMI of the launch template.
	ImageID string `json:"imageID,omitempty"`

	// Labels, Taints and Resources are those of the tags k8s.io/cluster-autoscaler/node-template/….
	Labels    map[string]string   `json:"labels,omitempty"`
	Taints    []corev1.Taint      `json:"taints,omitempty"`
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeGroupSubnet is a subnet of a group.
type NodeGroupSubnet struct {
	ID     string `json:"id"`
	Zone   string `json:"zone"`
	ZoneID string `json:"zoneID,omitempty"`
}

// NodeGroupKind is the kind of a NodeGroup.
const NodeGroupKind = "NodeGroup"

// FinalizerNodeGroup keeps a NodeGroup until no NodeClaim needs it any more.
const FinalizerNodeGroup = "nodeless.sh/node-group"

// Conditions of a NodeGroup beside Ready.
const (
	ConditionGroupFound    = "GroupFound"    // the Auto Scaling group is there and can be sized
	ConditionTemplateFound = "TemplateFound" // what it launches is known
)

// LabelDiscovered is "true" on a NodeGroup that was created for a group with the tags of --node-group-auto-discovery.
// It is removed when the group no longer has them.
const LabelDiscovered = "nodeless.sh/discovered"

// LabelNodeGroup is on a NodePool that was created for a NodeGroup and names it.
const LabelNodeGroup = "nodeless.sh/node-group"

// AnnotationInstance is on a NodeClaim that was created for an instance of a group that was there already.
const AnnotationInstance = "nodeless.sh/adopts-instance"
