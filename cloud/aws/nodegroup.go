package aws

import (
	"encoding/json"
	"slices"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// annotationNodeGroup holds the NodeGroup on the EC2NodeClass that represents it, in memory only.
const annotationNodeGroup = "nodeless.sh/node-group-object"

// FromNodeGroup returns the EC2NodeClass that represents a NodeGroup: the subnets, the image and the instance types
// in its status. Its kind remains NodeGroup, which identifies it wherever groups differ. The result shares nothing
// with the object.
func FromNodeGroup(n *v1alpha1.NodeGroup) *ec2v1.EC2NodeClass {
	n = n.DeepCopy()
	family := ec2v1.AMIFamilyAL2023 // its reserved resources are assumed until the first node reports its own
	class := &ec2v1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.NodeGroupKind},
		ObjectMeta: n.ObjectMeta,
		Spec:       ec2v1.EC2NodeClassSpec{AMIFamily: &family},
	}
	setNodeGroup(class, n)
	return class
}

// setNodeGroup makes a class represent a NodeGroup with this spec and status.
func setNodeGroup(class *ec2v1.EC2NodeClass, n *v1alpha1.NodeGroup) {
	text, err := json.Marshal(v1alpha1.NodeGroup{Spec: n.Spec, Status: n.Status})
	if err != nil { // such an object always has a JSON form
		return
	}
	annotations := map[string]string{annotationNodeGroup: string(text)}
	for k, v := range class.Annotations {
		if k != annotationNodeGroup {
			annotations[k] = v
		}
	}
	class.Annotations = annotations
	class.Status = ec2v1.EC2NodeClassStatus{}
	for _, c := range n.Status.Conditions {
		class.Status.Conditions = append(class.Status.Conditions, status.Condition(c))
	}
	for _, s := range n.Status.Subnets {
		class.Status.Subnets = append(class.Status.Subnets, ec2v1.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID})
	}
	if len(n.Status.InstanceTypes) > 0 {
		class.Status.AMIs = []ec2v1.AMI{{ID: n.Status.ImageID, Requirements: []corev1.NodeSelectorRequirement{
			{Key: model.LabelInstanceType, Operator: corev1.NodeSelectorOpIn, Values: n.Status.InstanceTypes},
		}}}
	}
}

// NodeGroupOf returns spec and status of the NodeGroup that a class represents, with the conditions of the class; nil
// if it represents none.
func NodeGroupOf(class *ec2v1.EC2NodeClass) *v1alpha1.NodeGroup {
	if !isNodeGroup(class) {
		return nil
	}
	n := &v1alpha1.NodeGroup{}
	if json.Unmarshal([]byte(class.Annotations[annotationNodeGroup]), n) != nil { // it has no other writer
		return n
	}
	n.Status.Conditions = nil
	for _, c := range class.Status.Conditions {
		n.Status.Conditions = append(n.Status.Conditions, metav1.Condition(c))
	}
	return n
}

// isNodeGroup reports whether a class represents a NodeGroup.
func isNodeGroup(class *ec2v1.EC2NodeClass) bool {
	return class.Kind == v1alpha1.NodeGroupKind && class.APIVersion == v1alpha1.GroupVersion.String()
}

// offeredAs keeps the offerings of the capacity types that a group launches.
func offeredAs(group *v1alpha1.NodeGroup, offerings []model.Offering) []model.Offering {
	if group == nil {
		return offerings
	}
	return slices.DeleteFunc(slices.Clone(offerings), func(o model.Offering) bool {
		return !slices.Contains(group.Status.CapacityTypes, o.CapacityType)
	})
}

// shareSmallest gives all types of a catalog the smallest amount of each resource: Auto Scaling chooses among the
// types.
func shareSmallest(types []model.InstanceType) {
	if len(types) < 2 {
		return
	}
	capacity, allocatable := types[0].Capacity, types[0].Allocatable
	for _, t := range types[1:] {
		for i := range capacity {
			capacity[i], allocatable[i] = min(capacity[i], t.Capacity[i]), min(allocatable[i], t.Allocatable[i])
		}
	}
	for i := range types {
		types[i].Capacity, types[i].Allocatable = capacity, allocatable
	}
}

// groupCapacity returns the capacity types of the group that a class represents.
func groupCapacity(class *ec2v1.EC2NodeClass) []string {
	if n := NodeGroupOf(class); n != nil {
		return n.Status.CapacityTypes
	}
	return nil
}

func isGroupRef(ref cloud.ClassRef) bool {
	return v1alpha1.IsNodeGroup(ref.Group, ref.Kind)
}
