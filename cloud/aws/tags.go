package aws

import (
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

// tagToken is the tag that ties an instance to one claim object: names of claims come again, their UIDs do not.
const tagToken = "nodeless.sh/nodeclaim-uid"

// sharedTags are on everything made for a class.
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

// instanceTags are on an instance and its volumes: by them it is found again.
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

// ownKind is what a class is whose TypeMeta says nothing, as those of objects from a cache.
const ownKind = "EC2NodeClass"

// kindOf is the kind of the object a class is or stands for.
func kindOf(class *ec2v1.EC2NodeClass) string {
	if class.Kind == "" {
		return ownKind
	}
	return class.Kind
}

// title names a class for people.
func title(class *ec2v1.EC2NodeClass) string { return fmt.Sprintf("%s %q", kindOf(class), class.Name) }

// cloudName is what a class is called in the cloud: an EC2NodeClass by its name, which Karpenter's own tools know, one
// of another kind by both.
func cloudName(class *ec2v1.EC2NodeClass) string {
	if kind := kindOf(class); kind != ownKind {
		return strings.ToLower(kind) + "/" + class.Name
	}
	return class.Name
}

// classLabel is the label by which a Node says its class.
func classLabel(class *ec2v1.EC2NodeClass) string {
	if kind := kindOf(class); kind != ownKind {
		group, _, _ := strings.Cut(class.APIVersion, "/")
		return group + "/" + strings.ToLower(kind)
	}
	return ec2v1.LabelNodeClass
}
