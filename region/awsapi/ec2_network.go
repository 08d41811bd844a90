package awsapi

import (
	"cmp"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// Zones, regions, VPCs and subnets.

var subnets = kind[types.Subnet]{
	key: "SubnetId", usual: 1000,
	filters: `subnet-id subnet-arn state owner-id vpc-id cidr-block cidrBlock cidr=CidrBlock
		available-ip-address-count availability-zone availabilityZone availability-zone-id availabilityZoneId
		default-for-az defaultForAz map-public-ip-on-launch
		tag-key=Tags.Key tag-value=Tags.Value`,
	ids: []naming{{"SubnetIds", "SubnetId", "InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist"}},
}

func describeSubnets(c *call, in *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error) {
	var all []types.Subnet
	for _, s := range c.region.Subnets() {
		all = append(all, c.subnetOf(s))
	}
	found, next, err := subnets.answer(in, all)
	return &ec2.DescribeSubnetsOutput{Subnets: found, NextToken: next}, err
}

func (c *call) subnetOf(s region.Subnet) types.Subnet {
	return types.Subnet{
		SubnetId: &s.ID, SubnetArn: new("arn:aws:ec2:" + c.region.Name() + ":" + region.AccountID + ":subnet/" + s.ID),
		State: types.SubnetStateAvailable, OwnerId: new(region.AccountID), VpcId: &s.VPC,
		CidrBlock: new(s.CIDR.String()), AvailableIpAddressCount: new(int32(s.Free)), AvailabilityZone: &s.Zone,
		AvailabilityZoneId: &s.ZoneID, DefaultForAz: new(false), MapPublicIpOnLaunch: new(false), Tags: tagsOf(s.Tags),
	}
}

func createSubnet(c *call, in *ec2.CreateSubnetInput) (*ec2.CreateSubnetOutput, error) {
	if *in.VpcId != region.VPCID {
		return nil, failure(400, "InvalidVpcID.NotFound", "The vpc ID '"+*in.VpcId+"' does not exist")
	}
	cidr, err := netip.ParsePrefix(*in.CidrBlock)
	if err != nil {
		return nil, failure(400, "InvalidParameterValue",
			"Value ("+*in.CidrBlock+") for parameter cidrBlock is invalid. This is not a valid CIDR block.")
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	s, err := c.region.CreateSubnet(region.SubnetRequest{
		Zone: cmp.Or(aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId)), CIDR: cidr.Masked(),
		Tags: tagsFor(types.ResourceTypeSubnet, in.TagSpecifications),
	})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateSubnetOutput{Subnet: new(c.subnetOf(s))}, nil
}

func deleteSubnet(c *call, in *ec2.DeleteSubnetInput) (*ec2.DeleteSubnetOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return &ec2.DeleteSubnetOutput{}, c.region.DeleteSubnet(*in.SubnetId)
}

var vpcs = kind[types.Vpc]{
	key: "VpcId", usual: 1000,
	// EC2 also takes isDefault, as many documents of AWS write it.
	filters: "vpc-id owner-id state cidr=CidrBlock is-default isDefault=IsDefault tag-key=Tags.Key tag-value=Tags.Value",
	ids:     []naming{{"VpcIds", "VpcId", "InvalidVpcID.NotFound", "The vpc ID '%s' does not exist"}},
}

// describeVpcs returns the only VPC.
func describeVpcs(c *call, in *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
	found, next, err := vpcs.answer(in, []types.Vpc{{
		VpcId: new(region.VPCID), OwnerId: new(region.AccountID), State: types.VpcStateAvailable,
		CidrBlock: new(region.VPCCIDR), InstanceTenancy: types.TenancyDefault, IsDefault: new(false),
		Tags: tagsOf(c.region.VPCTags()),
	}})
	return &ec2.DescribeVpcsOutput{Vpcs: found, NextToken: next}, err
}

var zones = kind[types.AvailabilityZone]{
	filters: "zone-name zone-id state region-name group-name zone-type opt-in-status",
	ids: []naming{
		{"ZoneNames", "ZoneName", "InvalidParameterValue", "Invalid availability zone: [%s]"},
		{"ZoneIds", "ZoneId", "InvalidParameterValue", "Invalid availability zone id: [%s]"},
	},
}

func describeAvailabilityZones(
	c *call, in *ec2.DescribeAvailabilityZonesInput,
) (*ec2.DescribeAvailabilityZonesOutput, error) {
	var all []types.AvailabilityZone
	for _, z := range c.region.Zones() {
		name := c.region.Name()
		all = append(all, types.AvailabilityZone{
			ZoneName: &z.Name, ZoneId: &z.ID, State: types.AvailabilityZoneStateAvailable, RegionName: &name,
			GroupName: &name, NetworkBorderGroup: &name, ZoneType: new("availability-zone"),
			OptInStatus: types.AvailabilityZoneOptInStatusOptInNotRequired, Messages: []types.AvailabilityZoneMessage{},
		})
	}
	found, err := zones.choose(in, all)
	return &ec2.DescribeAvailabilityZonesOutput{AvailabilityZones: found}, err
}

var regions = kind[types.Region]{
	filters: "region-name endpoint opt-in-status",
	ids:     []naming{{"RegionNames", "RegionName", "InvalidParameterValue", "Invalid region provided: [%s]"}},
}

// describeRegions returns this region.
func describeRegions(c *call, in *ec2.DescribeRegionsInput) (*ec2.DescribeRegionsOutput, error) {
	name := c.region.Name()
	found, err := regions.choose(in, []types.Region{{
		RegionName: &name, Endpoint: new("ec2." + name + ".amazonaws.com"), OptInStatus: new("opt-in-not-required"),
	}})
	return &ec2.DescribeRegionsOutput{Regions: found}, err
}
