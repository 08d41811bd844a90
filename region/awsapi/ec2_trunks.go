package awsapi

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// Trunk and branch interfaces, for security groups of pods.

var trunkAssociations = kind[types.TrunkInterfaceAssociation]{
	key: "AssociationId", usual: 1000, filters: "gre-key interface-protocol",
	ids: []naming{{
		"AssociationIds", "AssociationId", "InvalidAssociationID.NotFound", "The association ID '%s' does not exist",
	}},
}

func describeTrunkInterfaceAssociations(
	c *call, in *ec2.DescribeTrunkInterfaceAssociationsInput,
) (*ec2.DescribeTrunkInterfaceAssociationsOutput, error) {
	var all []types.TrunkInterfaceAssociation
	for _, a := range c.region.TrunkAssociations() {
		all = append(all, trunkAssociationOf(a))
	}
	found, next, err := trunkAssociations.answer(in, all)
	return &ec2.DescribeTrunkInterfaceAssociationsOutput{InterfaceAssociations: found, NextToken: next}, err
}

func trunkAssociationOf(a region.TrunkAssociation) types.TrunkInterfaceAssociation {
	return types.TrunkInterfaceAssociation{
		AssociationId: &a.ID, BranchInterfaceId: &a.BranchID, TrunkInterfaceId: &a.TrunkID, VlanId: new(int32(a.VLAN)),
		InterfaceProtocol: types.InterfaceProtocolTypeVlan, Tags: []types.Tag{},
	}
}

func associateTrunkInterface(
	c *call, in *ec2.AssociateTrunkInterfaceInput,
) (*ec2.AssociateTrunkInterfaceOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	if in.GreKey != nil {
		return nil, failure(400, "UnsupportedOperation", "The simulated region has no trunks with GRE keys: give a VlanId")
	}
	a, err := c.region.AssociateTrunkInterface(*in.BranchInterfaceId, *in.TrunkInterfaceId, int(aws.ToInt32(in.VlanId)))
	if err != nil {
		return nil, err
	}
	x := trunkAssociationOf(a)
	return &ec2.AssociateTrunkInterfaceOutput{InterfaceAssociation: &x, ClientToken: in.ClientToken}, nil
}

func disassociateTrunkInterface(
	c *call, in *ec2.DisassociateTrunkInterfaceInput,
) (*ec2.DisassociateTrunkInterfaceOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return &ec2.DisassociateTrunkInterfaceOutput{Return: new(true), ClientToken: in.ClientToken},
		c.region.DisassociateTrunkInterface(*in.AssociationId)
}
