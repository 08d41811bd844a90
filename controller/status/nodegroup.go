package status

import (
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud/aws"
)

// nodeGroupKind is NodeGroup, which stands for an EC2NodeClass with what AWS says about an Auto Scaling group.
type nodeGroupKind struct{}

// AddNodeGroup adds the kind NodeGroup. Call it before Classes are used.
func (c *Classes) AddNodeGroup() {
	c.handles[schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.NodeGroupKind}] = nodeGroupKind{}
}

func (nodeGroupKind) empty() client.Object { return &v1alpha1.NodeGroup{} }

func (nodeGroupKind) view(o client.Object) *ec2v1.EC2NodeClass {
	return aws.FromNodeGroup(o.(*v1alpha1.NodeGroup))
}

func (k nodeGroupKind) draft(o client.Object) *ec2v1.EC2NodeClass { return k.view(o) }

func (nodeGroupKind) settled(o client.Object, draft *ec2v1.EC2NodeClass, _ metav1.Time) client.Object {
	object := o.(*v1alpha1.NodeGroup).DeepCopy()
	object.Status = aws.NodeGroupOf(draft).Status
	return object
}

func (nodeGroupKind) finalizer() string { return v1alpha1.FinalizerNodeGroup }

func (nodeGroupKind) hashed() bool { return false }

func (nodeGroupKind) remembered(string) *ec2v1.EC2NodeClass { return nil }

func (nodeGroupKind) forget(types.UID) {}
