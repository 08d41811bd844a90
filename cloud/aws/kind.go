package aws

import (
	"fmt"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

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
