package awsapi

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

func TestTagsOfTheVPCAndOfSubnetReservations(t *testing.T) {
	b := newBuyer(t)
	subnet := b.region.Subnets()[0].ID
	r := must[*ec2.CreateSubnetCidrReservationOutput](t)(b.CreateSubnetCidrReservation(t.Context(),
		&ec2.CreateSubnetCidrReservationInput{
			SubnetId: &subnet, Cidr: aws.String("10.0.16.0/20"),
			ReservationType: ec2types.SubnetCidrReservationTypePrefix,
		})).SubnetCidrReservation.SubnetCidrReservationId
	must[*ec2.CreateTagsOutput](t)(b.CreateTags(t.Context(),
		&ec2.CreateTagsInput{Resources: []string{region.VPCID, *r}, Tags: tags("team", "web")}))
	for value, want := range map[string]int{"web": 1, "other": 0} {
		found := must[*ec2.DescribeVpcsOutput](t)(b.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{
			Filters: []ec2types.Filter{{Name: aws.String("tag:team"), Values: []string{value}}},
		})).Vpcs
		if len(found) != want {
			t.Errorf("VPCs of team %s: %+v", value, found)
		}
	}
	for _, name := range []string{"is-default", "isDefault"} {
		others := must[*ec2.DescribeVpcsOutput](t)(b.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{
			Filters: []ec2types.Filter{{Name: &name, Values: []string{"false"}}},
		})).Vpcs
		if len(others) != 1 {
			t.Errorf("VPCs of which %s is false: %+v", name, others)
		}
	}
	told := must[*ec2.DescribeTagsOutput](t)(b.DescribeTags(t.Context(), &ec2.DescribeTagsInput{
		Filters: []ec2types.Filter{{Name: aws.String("resource-id"), Values: []string{region.VPCID}}},
	})).Tags
	if len(told) != 1 || told[0].ResourceType != ec2types.ResourceTypeVpc || *told[0].Value != "web" {
		t.Errorf("tags of the VPC: %+v", told)
	}
	kept := must[*ec2.GetSubnetCidrReservationsOutput](t)(b.GetSubnetCidrReservations(t.Context(),
		&ec2.GetSubnetCidrReservationsInput{SubnetId: &subnet})).SubnetIpv4CidrReservations
	if len(kept) != 1 || len(kept[0].Tags) != 1 || *kept[0].Tags[0].Value != "web" {
		t.Errorf("the reservation has the tags %+v", kept)
	}
}

func TestOnlyWhatExistsIsTagged(t *testing.T) {
	b := newBuyer(t)
	for id, code := range map[string]string{
		"i-1": "InvalidInstanceID.NotFound", "vpc-1": "InvalidVpcID.NotFound", "subnet-1": "InvalidSubnetID.NotFound",
		"eni-1": "InvalidNetworkInterfaceID.NotFound", "sg-1": "InvalidGroup.NotFound",
		"ami-1": "InvalidAMIID.NotFound",
		"lt-1":  "InvalidLaunchTemplateId.NotFound", "cr-1": "InvalidCapacityReservationId.NotFound",
		"scr-1": "InvalidSubnetCidrReservationID.NotFound", "sgr-1": "UnsupportedOperation", "nodes": "InvalidID",
	} {
		_, err := b.CreateTags(t.Context(),
			&ec2.CreateTagsInput{Resources: []string{region.VPCID, id}, Tags: tags("team", "web")})
		wantCode(t, err, code)
		_, err = b.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: tags("team", "web")})
		wantCode(t, err, code)
	}
	vpc := must[*ec2.DescribeVpcsOutput](t)(b.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})).Vpcs[0]
	if len(vpc.Tags) > 0 {
		t.Errorf("a refused call tagged the VPC: %+v", vpc.Tags)
	}
	must[*ec2.CreateTagsOutput](t)(b.CreateTags(t.Context(),
		&ec2.CreateTagsInput{Resources: []string{"vol-1"}, Tags: tags("team", "web")})) // volumes are not simulated
}
