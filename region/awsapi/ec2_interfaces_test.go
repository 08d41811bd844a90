package awsapi

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The EC2 calls of the VPC CNI's address manager, in its order (amazon-vpc-cni-k8s, pkg/awsutils/awsutils.go).
func TestAForeignAddressManagerFindsItsCalls(t *testing.T) {
	b := newBuyer(t)
	id := b.buy(t, b.fleet("claim-1", "m5.large"))
	i := b.claimed(t, "claim-1")
	free := func() int32 {
		out := must[*ec2.DescribeSubnetsOutput](t)(b.DescribeSubnets(t.Context(),
			&ec2.DescribeSubnetsInput{SubnetIds: []string{*i.SubnetId}}))
		return *out.Subnets[0].AvailableIpAddressCount
	}
	before := free()
	made := must[*ec2.CreateNetworkInterfaceOutput](t)(b.CreateNetworkInterface(t.Context(),
		&ec2.CreateNetworkInterfaceInput{
			SubnetId: i.SubnetId, Description: aws.String("aws-K8S-" + id), Ipv4PrefixCount: aws.Int32(1),
			Groups: []string{*i.SecurityGroups[0].GroupId},
			TagSpecifications: []ec2types.TagSpecification{{
				ResourceType: ec2types.ResourceTypeNetworkInterface,
				Tags:         []ec2types.Tag{{Key: aws.String("node.k8s.amazonaws.com/instance_id"), Value: &id}},
			}},
		})).NetworkInterface
	if made.Status != "available" || len(made.Ipv4Prefixes) != 1 || before-free() != 17 ||
		*made.Groups[0].GroupName != *i.SecurityGroups[0].GroupName {
		t.Errorf("made %+v, %d addresses gone", made, before-free())
	}
	attachment := must[*ec2.AttachNetworkInterfaceOutput](t)(b.AttachNetworkInterface(t.Context(),
		&ec2.AttachNetworkInterfaceInput{
			NetworkInterfaceId: made.NetworkInterfaceId, InstanceId: &id, DeviceIndex: aws.Int32(1),
			NetworkCardIndex: aws.Int32(0),
		})).AttachmentId
	must[*ec2.ModifyNetworkInterfaceAttributeOutput](t)(b.ModifyNetworkInterfaceAttribute(t.Context(),
		&ec2.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: made.NetworkInterfaceId,
			Attachment: &ec2types.NetworkInterfaceAttachmentChanges{
				AttachmentId: attachment, DeleteOnTermination: aws.Bool(true),
			},
		}))
	more := must[*ec2.AssignPrivateIpAddressesOutput](t)(b.AssignPrivateIpAddresses(t.Context(),
		&ec2.AssignPrivateIpAddressesInput{
			NetworkInterfaceId: made.NetworkInterfaceId, SecondaryPrivateIpAddressCount: aws.Int32(3),
		}))
	if len(more.AssignedPrivateIpAddresses) != 3 {
		t.Fatalf("assigned %+v", more)
	}
	_, err := b.AssignPrivateIpAddresses(t.Context(), &ec2.AssignPrivateIpAddressesInput{
		NetworkInterfaceId: made.NetworkInterfaceId, Ipv4PrefixCount: aws.Int32(6),
	})
	wantCode(t, err, "PrivateIpAddressLimitExceeded")
	must[*ec2.UnassignPrivateIpAddressesOutput](t)(b.UnassignPrivateIpAddresses(t.Context(),
		&ec2.UnassignPrivateIpAddressesInput{
			NetworkInterfaceId: made.NetworkInterfaceId, Ipv4Prefixes: []string{*made.Ipv4Prefixes[0].Ipv4Prefix},
			PrivateIpAddresses: []string{*more.AssignedPrivateIpAddresses[0].PrivateIpAddress},
		}))
	told := b.claimed(t, "claim-1").NetworkInterfaces
	if len(told) != 2 || len(told[1].PrivateIpAddresses) != 3 || len(told[1].Ipv4Prefixes) != 0 ||
		!*told[1].Attachment.DeleteOnTermination {
		t.Errorf("the instance is told with %+v", told)
	}
	tagged := must[*ec2.DescribeNetworkInterfacesOutput](t)(b.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{{
			Name: aws.String("tag:node.k8s.amazonaws.com/instance_id"), Values: []string{id},
		}}}))
	if len(tagged.NetworkInterfaces) != 1 || *tagged.NetworkInterfaces[0].Attachment.DeviceIndex != 1 {
		t.Errorf("by its tag: %+v", tagged.NetworkInterfaces)
	}
	_, err = b.DeleteNetworkInterface(t.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: made.NetworkInterfaceId})
	wantCode(t, err, "InvalidParameterValue")
	must[*ec2.DetachNetworkInterfaceOutput](t)(b.DetachNetworkInterface(t.Context(),
		&ec2.DetachNetworkInterfaceInput{AttachmentId: attachment}))
	must[*ec2.DeleteNetworkInterfaceOutput](t)(b.DeleteNetworkInterface(t.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: made.NetworkInterfaceId}))
	if free() != before {
		t.Errorf("%d addresses are free, before %d", free(), before)
	}
}

func TestASubnetKeepsAPartForPrefixes(t *testing.T) {
	b := newBuyer(t)
	subnet := b.region.Subnets()[0]
	made := must[*ec2.CreateSubnetCidrReservationOutput](t)(b.CreateSubnetCidrReservation(t.Context(),
		&ec2.CreateSubnetCidrReservationInput{
			SubnetId: &subnet.ID, Cidr: aws.String("10.0.16.0/20"), ReservationType: ec2types.SubnetCidrReservationTypePrefix,
		})).SubnetCidrReservation
	list := must[*ec2.GetSubnetCidrReservationsOutput](t)(b.GetSubnetCidrReservations(t.Context(),
		&ec2.GetSubnetCidrReservationsInput{SubnetId: &subnet.ID})).SubnetIpv4CidrReservations
	if len(list) != 1 || *list[0].SubnetCidrReservationId != *made.SubnetCidrReservationId ||
		*list[0].Cidr != "10.0.16.0/20" {
		t.Errorf("reservations %+v", list)
	}
	gone := must[*ec2.DeleteSubnetCidrReservationOutput](t)(b.DeleteSubnetCidrReservation(t.Context(),
		&ec2.DeleteSubnetCidrReservationInput{SubnetCidrReservationId: made.SubnetCidrReservationId}))
	if *gone.DeletedSubnetCidrReservation.Cidr != "10.0.16.0/20" {
		t.Errorf("deleted %+v", gone.DeletedSubnetCidrReservation)
	}
	_, err := b.CreateSubnetCidrReservation(t.Context(), &ec2.CreateSubnetCidrReservationInput{
		SubnetId: &subnet.ID, Cidr: aws.String("everything"), ReservationType: ec2types.SubnetCidrReservationTypePrefix,
	})
	wantCode(t, err, "InvalidParameterValue")
}

// Single addresses are assigned outside reservations, and prefixes first from those of type prefix, but never from
// those of type explicit. A prefix is a free, aligned block of 16 addresses: scattered addresses leave none.
func TestReservationsSayWhereAddressesComeFrom(t *testing.T) {
	b := newBuyer(t)
	vpc := b.region.Subnets()[0].VPC
	subnet := must[*ec2.CreateSubnetOutput](t)(b.CreateSubnet(t.Context(),
		&ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String("10.200.0.0/24")})).Subnet.SubnetId
	reserve := func(cidr string, kind ec2types.SubnetCidrReservationType) *string {
		return must[*ec2.CreateSubnetCidrReservationOutput](t)(b.CreateSubnetCidrReservation(t.Context(),
			&ec2.CreateSubnetCidrReservationInput{SubnetId: subnet, Cidr: &cidr, ReservationType: kind},
		)).SubnetCidrReservation.SubnetCidrReservationId
	}
	reserve("10.200.0.128/26", ec2types.SubnetCidrReservationTypePrefix)
	explicit := reserve("10.200.0.192/26", ec2types.SubnetCidrReservationTypeExplicit)
	made := must[*ec2.CreateNetworkInterfaceOutput](t)(b.CreateNetworkInterface(t.Context(),
		&ec2.CreateNetworkInterfaceInput{SubnetId: subnet, SecondaryPrivateIpAddressCount: aws.Int32(99)})).NetworkInterface
	for _, ip := range made.PrivateIpAddresses {
		if at := netip.MustParseAddr(*ip.PrivateIpAddress); !netip.MustParsePrefix("10.200.0.0/25").Contains(at) {
			t.Errorf("%s is in a reservation", at)
		}
	}
	from := func(cidr string, count int32) error {
		t.Helper()
		out, err := b.AssignPrivateIpAddresses(t.Context(), &ec2.AssignPrivateIpAddressesInput{
			NetworkInterfaceId: made.NetworkInterfaceId, Ipv4PrefixCount: &count,
		})
		if err != nil {
			return err
		}
		for _, x := range out.AssignedIpv4Prefixes {
			at := netip.MustParsePrefix(*x.Ipv4Prefix)
			if at != at.Masked() || at.Bits() != 28 || !netip.MustParsePrefix(cidr).Contains(at.Addr()) {
				t.Errorf("prefix %s, want a block of %s", at, cidr)
			}
		}
		return nil
	}
	if err := from("10.200.0.128/26", 4); err != nil {
		t.Fatal(err)
	}
	free := *must[*ec2.DescribeSubnetsOutput](t)(b.DescribeSubnets(t.Context(),
		&ec2.DescribeSubnetsInput{SubnetIds: []string{*subnet}})).Subnets[0].AvailableIpAddressCount
	if free != 251-100-64 {
		t.Errorf("%d addresses are free", free)
	}
	wantCode(t, from("", 1), "InsufficientCidrBlocks")
	must[*ec2.DeleteSubnetCidrReservationOutput](t)(b.DeleteSubnetCidrReservation(t.Context(),
		&ec2.DeleteSubnetCidrReservationInput{SubnetCidrReservationId: explicit}))
	if err := from("10.200.0.192/26", 3); err != nil { // the last address of the subnet is AWS's
		t.Error(err)
	}
}

func TestASubnetOfOnesOwn(t *testing.T) {
	b := newBuyer(t)
	all := must[*ec2.DescribeSubnetsOutput](t)(b.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})).Subnets
	made := must[*ec2.CreateSubnetOutput](t)(b.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
		VpcId: all[0].VpcId, AvailabilityZone: all[1].AvailabilityZone, CidrBlock: aws.String("10.200.0.0/24"),
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeSubnet, Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("pods")}},
		}},
	})).Subnet
	found := must[*ec2.DescribeSubnetsOutput](t)(b.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{
		Filters: []ec2types.Filter{{Name: aws.String("tag:Name"), Values: []string{"pods"}}},
	})).Subnets
	if len(found) != 1 || *found[0].SubnetId != *made.SubnetId || *found[0].AvailableIpAddressCount != 251 ||
		*found[0].AvailabilityZone != *all[1].AvailabilityZone {
		t.Errorf("found %+v of %+v", found, made)
	}
	_, err := b.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: aws.String("vpc-1"), CidrBlock: made.CidrBlock})
	wantCode(t, err, "InvalidVpcID.NotFound")
	_, err = b.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: made.VpcId})
	wantCode(t, err, "MissingParameter")
	_, err = b.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: made.VpcId, CidrBlock: aws.String("pods")})
	wantCode(t, err, "InvalidParameterValue")
	must[*ec2.DeleteSubnetOutput](t)(b.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: made.SubnetId}))
	_, err = b.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: made.SubnetId})
	wantCode(t, err, "InvalidSubnetID.NotFound")
}

func TestADryRunChangesNoSubnet(t *testing.T) {
	b := newBuyer(t)
	vpc := b.region.Subnets()[0].VPC
	made := must[*ec2.CreateSubnetOutput](t)(b.CreateSubnet(t.Context(),
		&ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String("10.200.0.0/24")})).Subnet
	before := len(b.region.Subnets())
	_, err := b.CreateSubnet(t.Context(),
		&ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String("10.201.0.0/24"), DryRun: aws.Bool(true)})
	wantCode(t, err, "DryRunOperation")
	_, err = b.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: made.SubnetId, DryRun: aws.Bool(true)})
	wantCode(t, err, "DryRunOperation")
	if after := len(b.region.Subnets()); after != before {
		t.Errorf("%d subnets after dry runs, %d before", after, before)
	}
	_, err = b.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{DryRun: aws.Bool(true)})
	wantCode(t, err, "DryRunOperation")
}

func TestTheGroupsOfAnInterfaceAreItsOwn(t *testing.T) {
	b := newBuyer(t)
	id := b.buy(t, b.fleet("claim-1", "m5.large"))
	i := b.claimed(t, "claim-1")
	other := b.region.SecurityGroups()[1]
	second := must[*ec2.CreateNetworkInterfaceOutput](t)(b.CreateNetworkInterface(t.Context(),
		&ec2.CreateNetworkInterfaceInput{SubnetId: i.SubnetId, Groups: []string{other.ID}})).NetworkInterface
	must[*ec2.AttachNetworkInterfaceOutput](t)(b.AttachNetworkInterface(t.Context(), &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceId: second.NetworkInterfaceId, InstanceId: &id, DeviceIndex: aws.Int32(1),
	}))
	want := func(instance, first, second string) {
		t.Helper()
		i := b.claimed(t, "claim-1")
		e := i.NetworkInterfaces
		got := [][]ec2types.GroupIdentifier{i.SecurityGroups, e[0].Groups, e[1].Groups}
		for n, want := range []string{instance, first, second} {
			if len(got[n]) != 1 || *got[n][0].GroupId != want || *got[n][0].GroupName == "" {
				t.Errorf("groups %d: %+v, want %s", n, got[n], want)
			}
		}
	}
	own := *i.SecurityGroups[0].GroupId
	want(own, own, other.ID)
	set := func(eni *string, groups ...string) error {
		_, err := b.ModifyNetworkInterfaceAttribute(t.Context(),
			&ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: eni, Groups: groups})
		return err
	}
	first := i.NetworkInterfaces[0].NetworkInterfaceId
	wantCode(t, set(first, "sg-0"), "InvalidGroup.NotFound")
	want(own, own, other.ID)
	if err := errors.Join(set(first, other.ID), set(second.NetworkInterfaceId, own)); err != nil {
		t.Fatal(err)
	}
	want(other.ID, other.ID, own)
}

func TestATemplateTagsInterfaces(t *testing.T) {
	b := newBuyer(t)
	b.buy(t, b.withTemplate(t, ec2types.RequestLaunchTemplateData{
		TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: tags("team", "web")},
		},
	}))
	found := must[*ec2.DescribeNetworkInterfacesOutput](t)(b.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{
			{Name: aws.String("tag:team"), Values: []string{"web"}},
		}}))
	if len(found.NetworkInterfaces) != 1 || *found.NetworkInterfaces[0].Attachment.DeviceIndex != 0 {
		t.Errorf("by the tag: %+v", found.NetworkInterfaces)
	}
}
