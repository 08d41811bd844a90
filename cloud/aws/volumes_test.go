package aws

import (
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestVolumesThatPodsCanHave(t *testing.T) {
	says := func(most int32, kind ec2types.AttachmentLimitType) *ec2types.InstanceTypeInfo {
		return &ec2types.InstanceTypeInfo{EbsInfo: &ec2types.EbsInfo{
			MaximumEbsAttachments: awssdk.Int32(most),
			AttachmentLimitType:   kind,
		}}
	}
	s := sizing{disks: 2}
	if got := s.attachLimits(says(27, ec2types.AttachmentLimitTypeShared)); len(got) != 1 ||
		got[0].Driver != "ebs.csi.aws.com" || got[0].Max != 24 {
		t.Errorf("shared: %+v", got)
	}
	if got := s.attachLimits(says(128, ec2types.AttachmentLimitTypeDedicated)); got[0].Max != 126 {
		t.Errorf("dedicated: %+v", got)
	}
	if got := s.attachLimits(says(1, "")); got[0].Max != 0 {
		t.Errorf("none left: %+v", got)
	}
	if got := s.attachLimits(&ec2types.InstanceTypeInfo{}); got != nil {
		t.Errorf("not said: %+v", got)
	}
	_, p, class := stage(t)
	if s := p.sizingOf(class); s.disks != 1 {
		t.Errorf("an instance has its root volume: %d", s.disks)
	}
}
