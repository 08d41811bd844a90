package status

import (
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/cloud/aws"
)

// nodeClassKind is NodeClass of EKS Auto Mode, which stands for an EC2NodeClass and can hold its status.
type nodeClassKind struct{}

// AddNodeClass adds the kind NodeClass of EKS Auto Mode. Call it before Classes are used.
func (c *Classes) AddNodeClass() {
	c.handles[schema.GroupKind{Group: eksv1.GroupVersion.Group, Kind: eksv1.Kind}] = nodeClassKind{}
}

func (nodeClassKind) empty() client.Object { return &eksv1.NodeClass{} }

func (nodeClassKind) view(o client.Object) *ec2v1.EC2NodeClass {
	return aws.FromNodeClass(o.(*eksv1.NodeClass))
}

func (k nodeClassKind) draft(o client.Object) *ec2v1.EC2NodeClass { return k.view(o) }

func (nodeClassKind) settled(o client.Object, draft *ec2v1.EC2NodeClass, _ metav1.Time) client.Object {
	object := o.(*eksv1.NodeClass).DeepCopy()
	object.Status = *draft.Status.DeepCopy()
	return object
}

func (nodeClassKind) finalizer() string { return eksv1.TerminationFinalizer }

func (nodeClassKind) hashed() bool { return true }

func (nodeClassKind) remembered(string) *ec2v1.EC2NodeClass { return nil }

func (nodeClassKind) forget(types.UID) {}
