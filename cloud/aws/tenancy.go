package aws

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Tenancy: as with Karpenter, types offer both, and an instance is dedicated if its claim does not allow default
// tenancy (karpenter.sh, "Scheduling", well-known labels). Prices are those of default tenancy.

const (
	defaultTenancy   = string(ec2types.TenancyDefault)
	dedicatedTenancy = string(ec2types.TenancyDedicated)
)

// eitherTenancy returns the requirements of a type whose launches choose the tenancy, and removes it from the labels.
func eitherTenancy(rs model.Requirements, labels map[string]string) model.Requirements {
	delete(labels, ec2v1.LabelInstanceTenancy)
	return rs.Without(ec2v1.LabelInstanceTenancy).And(model.Requirements{
		model.OneOf(ec2v1.LabelInstanceTenancy, defaultTenancy, dedicatedTenancy),
	})
}

// dedicated reports whether requirements exclude default tenancy.
func dedicated(rs model.Requirements) bool {
	wanted, named := rs.Get(ec2v1.LabelInstanceTenancy)
	return named && !wanted.Has(defaultTenancy)
}

// dedicate makes the instances of a launch template dedicated.
func dedicate(data *ec2types.RequestLaunchTemplateData) {
	if data.Placement == nil {
		data.Placement = &ec2types.LaunchTemplatePlacementRequest{}
	}
	data.Placement.Tenancy = ec2types.TenancyDedicated
}
