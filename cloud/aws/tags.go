package aws

import (
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/cloud"
)

func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

// tagToken is the tag that ties an instance to one NodeClaim object: names may be reused, UIDs are not.
const tagToken = "nodeless.sh/nodeclaim-uid"

// sharedTags returns the tags of all resources that are created for a class.
func (a *account) sharedTags(class *ec2v1.EC2NodeClass) map[string]string {
	tags := map[string]string{}
	for k, v := range class.Spec.Tags {
		if !strings.HasPrefix(k, "aws:") {
			tags[k] = v
		}
	}
	tags[ec2v1.LabelNodeClass] = cloudName(class)
	tags[ec2v1.EKSClusterNameTagKey] = a.o.ClusterName
	tags["kubernetes.io/cluster/"+a.o.ClusterName] = "owned"
	return tags
}

// instanceTags returns the tags of an instance and its volumes, which identify the instance.
func (a *account) instanceTags(class *ec2v1.EC2NodeClass, req *cloud.LaunchRequest) map[string]string {
	tags := a.sharedTags(class)
	if _, named := tags[ec2v1.NameTagKey]; !named {
		tags[ec2v1.NameTagKey] = req.Claim
	}
	tags[ec2v1.NodeClaimTagKey] = req.Claim
	tags[tagToken] = req.Token
	if req.Pool != "" {
		tags[ec2v1.NodePoolTagKey] = req.Pool
	}
	return tags
}

func tagList(tags map[string]string) []ec2types.Tag {
	out := make([]ec2types.Tag, 0, len(tags))
	for _, k := range sortedKeys(tags) {
		out = append(out, ec2types.Tag{Key: awssdk.String(k), Value: awssdk.String(tags[k])})
	}
	return out
}

// ownKind is the kind of a class with an empty TypeMeta, such as an object from a cache.
const ownKind = "EC2NodeClass"

// kindOf returns the kind of the object that a class is or represents.
func kindOf(class *ec2v1.EC2NodeClass) string {
	if class.Kind == "" {
		return ownKind
	}
	return class.Kind
}

// title names a class in messages.
func title(class *ec2v1.EC2NodeClass) string { return fmt.Sprintf("%s %q", kindOf(class), class.Name) }

// cloudName returns the name of a class in AWS: for an EC2NodeClass its name, which Karpenter's own tools know; for
// other kinds the kind and the name.
func cloudName(class *ec2v1.EC2NodeClass) string {
	if kind := kindOf(class); kind != ownKind {
		return strings.ToLower(kind) + "/" + class.Name
	}
	return class.Name
}

// ClassName returns a name that is unique among classes of all kinds: for an EC2NodeClass its name; for other kinds
// the kind and the name.
func ClassName(ref cloud.ClassRef) string {
	return cloudName(&ec2v1.EC2NodeClass{
		TypeMeta: metav1.TypeMeta{Kind: ref.Kind}, ObjectMeta: metav1.ObjectMeta{Name: ref.Name},
	})
}

// classLabel returns the key of the label that names a Node's class.
func classLabel(class *ec2v1.EC2NodeClass) string {
	if kind := kindOf(class); kind != ownKind {
		group, _, _ := strings.Cut(class.APIVersion, "/")
		return group + "/" + strings.ToLower(kind)
	}
	return ec2v1.LabelNodeClass
}
