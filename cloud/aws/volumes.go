package aws

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/engine/model"
)

const ebsDriver = "ebs.csi.aws.com"

// attachLimits are the volumes that pods on an instance of the type can have: what EC2 says, less the instance's own
// disks and, where interfaces count against the same number, the second one, which the VPC CNI keeps warm from the
// start. So does the EBS CSI driver count when it starts; what it says of the Node holds from then on. nil if EC2 does
// not say.
func (s sizing) attachLimits(t *ec2types.InstanceTypeInfo) []model.AttachLimit {
	e := t.EbsInfo
	if e == nil || e.MaximumEbsAttachments == nil {
		return nil
	}
	most := int64(*e.MaximumEbsAttachments) - int64(s.disks)
	if e.AttachmentLimitType != ec2types.AttachmentLimitTypeDedicated {
		most--
	}
	return []model.AttachLimit{{Driver: ebsDriver, Max: max(most, 0)}}
}
