package awsapi

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// Network interfaces, and the VPC CNI's calls on them.

var interfaces = kind[types.NetworkInterface]{
	key: "NetworkInterfaceId", usual: 1000,
	filters: `network-interface-id subnet-id vpc-id owner-id status private-ip-address private-dns-name
		group-id=Groups.GroupId group-name=Groups.GroupName attachment.attachment-id attachment.instance-id
		attachment.status attachment.device-index addresses.private-ip-address=PrivateIpAddresses.PrivateIpAddress
		interface-type availability-zone description mac-address requester-managed
		tag-key=TagSet.Key tag-value=TagSet.Value`,
	ids: []naming{{
		"NetworkInterfaceIds", "NetworkInterfaceId", "InvalidNetworkInterfaceID.NotFound",
		"The networkInterface ID '%s' does not exist",
	}},
}

func describeNetworkInterfaces(
	c *call, in *ec2.DescribeNetworkInterfacesInput,
) (*ec2.DescribeNetworkInterfacesOutput, error) {
	var all []types.NetworkInterface
	groups, zones := c.groupNames(), c.zoneNames()
	for _, e := range c.region.NetworkInterfaces() {
		all = append(all, interfaceOf(&e, groups, zones))
	}
	found, next, err := interfaces.answer(in, all)
	return &ec2.DescribeNetworkInterfacesOutput{NetworkInterfaces: found, NextToken: next}, err
}

// groupNames returns the names of the security groups by ID.
func (c *call) groupNames() map[string]string {
	out := map[string]string{}
	for _, g := range c.region.SecurityGroups() {
		out[g.ID] = g.Name
	}
	return out
}

// groupIdentifiers returns security groups with their names.
func groupIdentifiers(ids []string, names map[string]string) []types.GroupIdentifier {
	out := []types.GroupIdentifier{}
	for _, id := range ids {
		out = append(out, types.GroupIdentifier{GroupId: &id, GroupName: new(names[id])})
	}
	return out
}

// zoneNames returns the zones of the subnets by subnet ID.
func (c *call) zoneNames() map[string]string {
	out := map[string]string{}
	for _, s := range c.region.Subnets() {
		out[s.ID] = s.Zone
	}
	return out
}

func interfaceOf(e *region.NetworkInterface, groups, zones map[string]string) types.NetworkInterface {
	zone, status := zones[e.SubnetID], types.NetworkInterfaceStatusAvailable
	x := types.NetworkInterface{
		NetworkInterfaceId: &e.ID, SubnetId: &e.SubnetID, VpcId: new(region.VPCID), OwnerId: new(region.AccountID),
		AvailabilityZone: &zone, Description: &e.Description, InterfaceType: types.NetworkInterfaceType(interfaceType(e)),
		MacAddress: new(e.MAC()), PrivateIpAddress: new(e.PrivateIP.String()), RequesterManaged: new(false),
		SourceDestCheck: new(true), Groups: groupIdentifiers(e.SecurityGroups, groups), TagSet: tagsOf(e.Tags),
		Ipv4Prefixes: prefixesOf(e.Prefixes),
	}
	for n, ip := range append([]netip.Addr{e.PrivateIP}, e.Addresses...) {
		x.PrivateIpAddresses = append(x.PrivateIpAddresses, types.NetworkInterfacePrivateIpAddress{
			PrivateIpAddress: new(ip.String()), Primary: new(n == 0),
		})
	}
	if e.InUse() {
		status = types.NetworkInterfaceStatusInUse
	}
	if e.InstanceID != "" {
		x.Attachment = &types.NetworkInterfaceAttachment{
			AttachmentId: &e.AttachmentID, AttachTime: &e.AttachedAt, DeleteOnTermination: new(!e.Keep),
			DeviceIndex: new(int32(e.DeviceIndex)), NetworkCardIndex: new(int32(0)), InstanceId: &e.InstanceID,
			InstanceOwnerId: new(region.AccountID), Status: types.AttachmentStatusAttached,
		}
	}
	x.Status = status
	return x
}

func prefixesOf(list []netip.Prefix) []types.Ipv4PrefixSpecification {
	out := []types.Ipv4PrefixSpecification{}
	for _, p := range list {
		out = append(out, types.Ipv4PrefixSpecification{Ipv4Prefix: new(p.String())})
	}
	return out
}

// instanceInterface converts an interface to the type of an instance's interface. The primary address of the primary
// interface is the instance's.
func instanceInterface(
	e *region.NetworkInterface, i region.Instance, groups map[string]string,
) types.InstanceNetworkInterface {
	x := types.InstanceNetworkInterface{
		NetworkInterfaceId: &e.ID, SubnetId: &e.SubnetID, VpcId: new(region.VPCID), OwnerId: new(region.AccountID),
		Status: types.NetworkInterfaceStatusInUse, InterfaceType: new(interfaceType(e)), Description: &e.Description,
		MacAddress: new(e.MAC()), PrivateIpAddress: new(e.PrivateIP.String()), SourceDestCheck: new(true),
		Groups: groupIdentifiers(e.SecurityGroups, groups),
		Attachment: &types.InstanceNetworkInterfaceAttachment{
			AttachmentId: &e.AttachmentID, Status: types.AttachmentStatusAttached, AttachTime: &e.AttachedAt,
			DeleteOnTermination: new(!e.Keep), DeviceIndex: new(int32(e.DeviceIndex)), NetworkCardIndex: new(int32(0)),
		},
	}
	if e.PrivateIP == i.PrivateIP {
		x.PrivateDnsName = &i.PrivateDNS
	}
	for n, ip := range append([]netip.Addr{e.PrivateIP}, e.Addresses...) {
		own := types.InstancePrivateIpAddress{PrivateIpAddress: new(ip.String()), Primary: new(n == 0)}
		if n == 0 {
			own.PrivateDnsName = x.PrivateDnsName
		}
		x.PrivateIpAddresses = append(x.PrivateIpAddresses, own)
	}
	for _, p := range e.Prefixes {
		x.Ipv4Prefixes = append(x.Ipv4Prefixes, types.InstanceIpv4Prefix{Ipv4Prefix: new(p.String())})
	}
	return x
}

// interfaceType returns the type of an interface as EC2 names it.
func interfaceType(e *region.NetworkInterface) string {
	return cmp.Or(e.Type, string(types.NetworkInterfaceTypeInterface))
}

// chosenByEC2 rejects calls that name addresses: the region chooses them.
func chosenByEC2(action string, named int) error {
	if named == 0 {
		return nil
	}
	return failure(400, "UnsupportedOperation", "The simulated region chooses addresses and prefixes itself: give "+
		action+" SecondaryPrivateIpAddressCount or Ipv4PrefixCount")
}

func createNetworkInterface(
	c *call, in *ec2.CreateNetworkInterfaceInput,
) (*ec2.CreateNetworkInterfaceOutput, error) {
	err := cmp.Or(dryRun(in.DryRun), chosenByEC2(c.action, len(in.PrivateIpAddresses)+len(in.Ipv4Prefixes)))
	if err != nil {
		return nil, err
	}
	switch in.InterfaceType {
	case "", types.NetworkInterfaceCreationTypeTrunk, types.NetworkInterfaceCreationTypeBranch:
	default:
		return nil, failure(400, "UnsupportedOperation", "The simulated region has no interfaces of type "+
			string(in.InterfaceType)+": leave InterfaceType out, or give trunk or branch")
	}
	e, err := c.region.CreateNetworkInterface(region.InterfaceRequest{
		ClientToken: aws.ToString(in.ClientToken), SubnetID: aws.ToString(in.SubnetId),
		Description: aws.ToString(in.Description), SecurityGroups: in.Groups,
		Tags:      tagsFor(types.ResourceTypeNetworkInterface, in.TagSpecifications),
		Addresses: int(aws.ToInt32(in.SecondaryPrivateIpAddressCount)), Prefixes: int(aws.ToInt32(in.Ipv4PrefixCount)),
		Type: string(in.InterfaceType),
	})
	if err != nil {
		return nil, err
	}
	x := interfaceOf(&e, c.groupNames(), c.zoneNames())
	return &ec2.CreateNetworkInterfaceOutput{NetworkInterface: &x, ClientToken: in.ClientToken}, nil
}

func attachNetworkInterface(
	c *call, in *ec2.AttachNetworkInterfaceInput,
) (*ec2.AttachNetworkInterfaceOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	id, err := c.region.AttachNetworkInterface(aws.ToString(in.NetworkInterfaceId), aws.ToString(in.InstanceId),
		int(aws.ToInt32(in.DeviceIndex)))
	return &ec2.AttachNetworkInterfaceOutput{AttachmentId: &id, NetworkCardIndex: new(int32(0))}, err
}

func detachNetworkInterface(
	c *call, in *ec2.DetachNetworkInterfaceInput,
) (*ec2.DetachNetworkInterfaceOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return &ec2.DetachNetworkInterfaceOutput{}, c.region.DetachNetworkInterface(aws.ToString(in.AttachmentId))
}

func deleteNetworkInterface(
	c *call, in *ec2.DeleteNetworkInterfaceInput,
) (*ec2.DeleteNetworkInterfaceOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return &ec2.DeleteNetworkInterfaceOutput{}, c.region.DeleteNetworkInterface(aws.ToString(in.NetworkInterfaceId))
}

func modifyNetworkInterfaceAttribute(
	c *call, in *ec2.ModifyNetworkInterfaceAttributeInput,
) (*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	var deleted *bool
	if in.Attachment != nil {
		deleted = in.Attachment.DeleteOnTermination
	}
	return &ec2.ModifyNetworkInterfaceAttributeOutput{}, c.region.ModifyNetworkInterfaceAttribute(
		aws.ToString(in.NetworkInterfaceId), deleted, in.Groups)
}

func assignPrivateIPAddresses(
	c *call, in *ec2.AssignPrivateIpAddressesInput,
) (*ec2.AssignPrivateIpAddressesOutput, error) {
	if err := chosenByEC2(c.action, len(in.PrivateIpAddresses)+len(in.Ipv4Prefixes)); err != nil {
		return nil, err
	}
	addresses, prefixes, err := c.region.AssignPrivateIPAddresses(aws.ToString(in.NetworkInterfaceId),
		int(aws.ToInt32(in.SecondaryPrivateIpAddressCount)), int(aws.ToInt32(in.Ipv4PrefixCount)))
	out := &ec2.AssignPrivateIpAddressesOutput{
		NetworkInterfaceId: in.NetworkInterfaceId, AssignedIpv4Prefixes: prefixesOf(prefixes),
	}
	for _, ip := range addresses {
		out.AssignedPrivateIpAddresses = append(out.AssignedPrivateIpAddresses,
			types.AssignedPrivateIpAddress{PrivateIpAddress: new(ip.String())})
	}
	return out, err
}

func unassignPrivateIPAddresses(
	c *call, in *ec2.UnassignPrivateIpAddressesInput,
) (*ec2.UnassignPrivateIpAddressesOutput, error) {
	var addresses []netip.Addr
	var prefixes []netip.Prefix
	for _, text := range in.PrivateIpAddresses {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, failure(400, "InvalidParameterValue", "Value ("+text+") for parameter privateIpAddress is invalid")
		}
		addresses = append(addresses, ip)
	}
	for _, text := range in.Ipv4Prefixes {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, failure(400, "InvalidParameterValue", "Value ("+text+") for parameter ipv4Prefix is invalid")
		}
		prefixes = append(prefixes, p)
	}
	return &ec2.UnassignPrivateIpAddressesOutput{}, c.region.UnassignPrivateIPAddresses(
		aws.ToString(in.NetworkInterfaceId), addresses, prefixes)
}

func createSubnetCIDRReservation(
	c *call, in *ec2.CreateSubnetCidrReservationInput,
) (*ec2.CreateSubnetCidrReservationOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	cidr, _ := netip.ParsePrefix(aws.ToString(in.Cidr)) // the region rejects an invalid prefix
	q, err := c.region.CreateSubnetCIDRReservation(region.Reservation{
		SubnetID: aws.ToString(in.SubnetId), Type: string(in.ReservationType), CIDR: cidr,
		Description: aws.ToString(in.Description),
		Tags:        tagsFor(types.ResourceTypeSubnetCidrReservation, in.TagSpecifications),
	})
	x := reservationOf(q)
	return &ec2.CreateSubnetCidrReservationOutput{SubnetCidrReservation: &x}, err
}

func deleteSubnetCIDRReservation(
	c *call, in *ec2.DeleteSubnetCidrReservationInput,
) (*ec2.DeleteSubnetCidrReservationOutput, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	q, err := c.region.DeleteSubnetCIDRReservation(aws.ToString(in.SubnetCidrReservationId))
	x := reservationOf(q)
	return &ec2.DeleteSubnetCidrReservationOutput{DeletedSubnetCidrReservation: &x}, err
}

func getSubnetCIDRReservations(
	c *call, in *ec2.GetSubnetCidrReservationsInput,
) (*ec2.GetSubnetCidrReservationsOutput, error) {
	list, err := c.region.SubnetCIDRReservations(aws.ToString(in.SubnetId))
	out := &ec2.GetSubnetCidrReservationsOutput{SubnetIpv6CidrReservations: []types.SubnetCidrReservation{}}
	for _, q := range slices.Clone(list) {
		out.SubnetIpv4CidrReservations = append(out.SubnetIpv4CidrReservations, reservationOf(q))
	}
	return out, err
}

func reservationOf(q region.Reservation) types.SubnetCidrReservation {
	return types.SubnetCidrReservation{
		SubnetCidrReservationId: &q.ID, SubnetId: &q.SubnetID, Cidr: new(q.CIDR.String()),
		ReservationType: types.SubnetCidrReservationType(q.Type), OwnerId: new(region.AccountID),
		Description: &q.Description, Tags: tagsOf(q.Tags),
	}
}
