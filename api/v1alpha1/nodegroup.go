package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeGroup is an EC2 Auto Scaling group whose size Nodeless sets. NodePools refer to it as their node class. The
// group's launch template (or launch configuration) and tags determine what its nodes are, and its minimum and maximum
// how many there may be.
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

// NodeGroupStatus is what AWS reports about the group.
type NodeGroupStatus struct {
	// MinSize is the group's minimum size, in instances.
	MinSize int32 `json:"minSize,omitempty"`
	// MaxSize is the group's maximum size, in instances.
	MaxSize int32 `json:"maxSize,omitempty"`
	// DesiredSize is the group's desired size, in instances.
	DesiredSize int32 `json:"desiredSize,omitempty"`
	// Instances is the number of instances in the group, including those that are starting or terminating.
	Instances int32 `json:"instances,omitempty"`

	// InstanceTypes are the types that the group may launch, in its own order. If there are several, Nodeless plans with
	// the smallest amount of each resource among them.
	InstanceTypes []string `json:"instanceTypes,omitempty"`
	// CapacityTypes are the capacity types that the group launches: on-demand, spot, or both.
	CapacityTypes []string `json:"capacityTypes,omitempty"`
	// Subnets are the subnets that the group launches instances in.
	Subnets []NodeGroupSubnet `json:"subnets,omitempty"`
	// ImageID is the AMI of the launch template or launch configuration.
	ImageID string `json:"imageID,omitempty"`

	// Labels of the nodes, from the group's tags k8s.io/cluster-autoscaler/node-template/label/….
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of the nodes, from the group's tags k8s.io/cluster-autoscaler/node-template/taint/….
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Resources of the nodes, from the group's tags k8s.io/cluster-autoscaler/node-template/resources/….
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Conditions: GroupFound, TemplateFound and Ready.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeGroupSubnet is a subnet of a group.
type NodeGroupSubnet struct {
	// ID of the subnet.
	ID string `json:"id"`
	// Zone is the name of the subnet's availability zone, such as us-west-2a.
	Zone string `json:"zone"`
	// ZoneID is the ID of the availability zone, such as usw2-az1.
	ZoneID string `json:"zoneID,omitempty"`
}

// NodeGroupKind is the kind of a NodeGroup.
const NodeGroupKind = "NodeGroup"

// IsNodeGroup reports whether a group and kind, such as those of a NodeClaim's nodeClassRef, are those of NodeGroups.
func IsNodeGroup(group, kind string) bool {
	return group == GroupVersion.Group && kind == NodeGroupKind
}

// FinalizerNodeGroup keeps a NodeGroup until no NodeClaim uses it.
const FinalizerNodeGroup = "nodeless.sh/node-group"

// Conditions of a NodeGroup besides Ready.
const (
	ConditionGroupFound    = "GroupFound"    // the Auto Scaling group exists and can be sized
	ConditionTemplateFound = "TemplateFound" // what the group launches is known
)

// LabelDiscovered is "true" on a NodeGroup that was created for a group with the tags of --node-group-auto-discovery.
// The NodeGroup is deleted when the group no longer has these tags.
const LabelDiscovered = "nodeless.sh/discovered"

// LabelNodeGroup is the label of a NodePool that was created for a NodeGroup; its value is the NodeGroup's name.
const LabelNodeGroup = "nodeless.sh/node-group"

// AnnotationInstance is the annotation of a NodeClaim that was created for an existing instance of a group; its value
// is the instance ID.
const AnnotationInstance = "nodeless.sh/adopts-instance"
