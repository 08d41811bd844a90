package awsapi

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// The EC2 calls of EKS's VPC resource controller for a pod with a security group of its own, in its order
// (amazon-vpc-resource-controller-k8s, pkg/provider/branch/trunk/trunk.go).
func TestAForeignResourceControllerFindsItsCalls(t *testing.T) {
	b := newBuyer(t)
	id := b.buy(t, b.fleet("claim-1", "m5.large"))
	i := b.claimed(t, "claim-1")
	group := must[*ec2.CreateSecurityGroupOutput](t)(b.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("pods"), Description: aws.String("of the shop"), VpcId: aws.String(region.VPCID),
	})).GroupId
	create := func(kind ec2types.NetworkInterfaceCreationType) *string {
		t.Helper()
		return must[*ec2.CreateNetworkInterfaceOutput](t)(b.CreateNetworkInterface(t.Context(),
			&ec2.CreateNetworkInterfaceInput{SubnetId: i.SubnetId, InterfaceType: kind, Groups: []string{*group}},
		)).NetworkInterface.NetworkInterfaceId
	}
	trunk, branch := create(ec2types.NetworkInterfaceCreationTypeTrunk), create("")
	associate := func(vlan int32) (*ec2.AssociateTrunkInterfaceOutput, error) {
		return b.AssociateTrunkInterface(t.Context(), &ec2.AssociateTrunkInterfaceInput{
			BranchInterfaceId: branch, TrunkInterfaceId: trunk, VlanId: aws.Int32(vlan),
		})
	}
	_, err := associate(1) // the trunk is not attached
	wantCode(t, err, "InvalidParameterValue")
	must[*ec2.AttachNetworkInterfaceOutput](t)(b.AttachNetworkInterface(t.Context(), &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceId: trunk, InstanceId: &id, DeviceIndex: aws.Int32(2),
	}))
	_, err = associate(121)
	wantCode(t, err, "InvalidParameterValue")
	made := must[*ec2.AssociateTrunkInterfaceOutput](t)(associate(7)).InterfaceAssociation
	told := must[*ec2.DescribeTrunkInterfaceAssociationsOutput](t)(b.DescribeTrunkInterfaceAssociations(t.Context(),
		&ec2.DescribeTrunkInterfaceAssociationsInput{AssociationIds: []string{*made.AssociationId}})).InterfaceAssociations
	if len(told) != 1 || *told[0].VlanId != 7 || *told[0].BranchInterfaceId != *branch || *told[0].TrunkInterfaceId != *trunk {
		t.Errorf("associations %+v", told)
	}
	types := map[ec2types.NetworkInterfaceType]int{}
	for _, e := range must[*ec2.DescribeNetworkInterfacesOutput](t)(b.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{{
			Name: aws.String("status"), Values: []string{"in-use"},
		}}})).NetworkInterfaces {
		types[e.InterfaceType]++
	}
	if types["interface"] != 1 || types["trunk"] != 1 || types["branch"] != 1 {
		t.Errorf("interfaces in use: %v", types)
	}
	_, err = associate(8)
	wantCode(t, err, "InvalidNetworkInterface.InUse")
	_, err = b.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: group})
	wantCode(t, err, "DependencyViolation")
	must[*ec2.DisassociateTrunkInterfaceOutput](t)(b.DisassociateTrunkInterface(t.Context(),
		&ec2.DisassociateTrunkInterfaceInput{AssociationId: made.AssociationId}))
	must[*ec2.DeleteNetworkInterfaceOutput](t)(b.DeleteNetworkInterface(t.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: branch}))
	_, err = b.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{
		SubnetId: i.SubnetId, InterfaceType: ec2types.NetworkInterfaceCreationTypeEfa,
	})
	wantCode(t, err, "UnsupportedOperation")
	_, err = b.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{
		SubnetId: i.SubnetId, Groups: []string{"sg-0"},
	})
	wantCode(t, err, "InvalidGroup.NotFound")
}
