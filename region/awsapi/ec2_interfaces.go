package awsapi

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nodeless/nodeless/region"
)

// interfaceOf is the network interface with which an instance was launched.
func interfaceOf(i region.Instance, groups set[groupXML]) interfaceXML {
	id := i.ID[min(2, len(i.ID)):]
	return interfaceXML{
		NetworkInterfaceID: "eni-" + id, SubnetID: i.SubnetID, VpcID: region.VPCID, OwnerID: region.AccountID, Status: "in-use", InterfaceType: "interface",
		PrivateIPAddress: i.PrivateIP.String(), PrivateDNSName: i.PrivateDNS, SourceDestCheck: true, GroupSet: groups,
		Attachment:         attachmentXML{AttachmentID: "eni-attach-" + id, Status: "attached", AttachTime: stamp(i.LaunchedAt), DeleteOnTermination: true},
		PrivateIPAddresses: items(addressXML{PrivateIPAddress: i.PrivateIP.String(), PrivateDNSName: i.PrivateDNS, Primary: true}),
	}
}

// ownInterfaceXML is an interface as it is told beside its instance.
type ownInterfaceXML struct {
	interfaceXML
	AvailabilityZone string      `xml:"availabilityZone"`
	Description      string      `xml:"description"`
	MACAddress       string      `xml:"macAddress"`
	RequesterManaged bool        `xml:"requesterManaged"`
	TagSet           set[tagXML] `xml:"tagSet"`
}

func (x ownInterfaceXML) id() string { return x.NetworkInterfaceID }

func (x ownInterfaceXML) attributes() attributes {
	var groups, names, addresses []string
	for _, g := range x.GroupSet.Items {
		groups, names = append(groups, g.GroupID), append(names, g.GroupName)
	}
	for _, a := range x.PrivateIPAddresses.Items {
		addresses = append(addresses, a.PrivateIPAddress)
	}
	return attributes{
		"network-interface-id": {x.NetworkInterfaceID}, "subnet-id": {x.SubnetID}, "vpc-id": {x.VpcID}, "availability-zone": {x.AvailabilityZone},
		"status": {x.Status}, "owner-id": {x.OwnerID}, "interface-type": {x.InterfaceType}, "description": {x.Description}, "mac-address": {x.MACAddress},
		"private-ip-address": {x.PrivateIPAddress}, "private-dns-name": {x.PrivateDNSName}, "addresses.private-ip-address": addresses,
		"attachment.instance-id": {x.Attachment.InstanceID}, "attachment.attachment-id": {x.Attachment.AttachmentID}, "attachment.status": {x.Attachment.Status},
		"group-id": groups, "group-name": names, "requester-managed": boolText(x.RequesterManaged),
	}.withTags(tagMap(x.TagSet))
}

type interfacesAnswer struct {
	Interfaces set[ownInterfaceXML] `xml:"networkInterfaceSet"`
	NextToken  string               `xml:"nextToken,omitempty"`
}

// describeNetworkInterfaces tells the interfaces of all instances. The addresses of an instance's pods are told as secondary
// addresses of its first interface; the region does not distribute them over further interfaces.
func describeNetworkInterfaces(c *call) (any, error) {
	near, pods := c.surroundings(), map[string][]netip.Addr{}
	for _, p := range c.region.PodAddresses() {
		pods[p.InstanceID] = append(pods[p.InstanceID], p.IP)
	}
	var all []ownInterfaceXML
	for _, i := range c.region.Instances() {
		for _, n := range near.instance(i).NetworkInterfaces.Items {
			x := ownInterfaceXML{interfaceXML: n, AvailabilityZone: i.Zone, MACAddress: macOf(i.PrivateIP)}
			x.Attachment.InstanceID, x.Attachment.InstanceOwnerID = i.ID, region.AccountID
			slices.SortFunc(pods[i.ID], netip.Addr.Compare)
			for _, ip := range pods[i.ID] {
				x.PrivateIPAddresses.Items = append(x.PrivateIPAddresses.Items, addressXML{PrivateIPAddress: ip.String()})
			}
			all = append(all, x)
		}
	}
	found, err := named(all, c.form.strs("NetworkInterfaceId"), ownInterfaceXML.id, "InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist")
	if err == nil {
		found, err = selected(found, c.filters(), ownInterfaceXML.attributes)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 1000, ownInterfaceXML.id)
	return interfacesAnswer{Interfaces: set[ownInterfaceXML]{Items: found}, NextToken: next}, err
}

// macOf is a locally administered hardware address, one for each address of the VPC.
func macOf(ip netip.Addr) string {
	b := ip.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}
