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
		NetworkInterfaceID: "eni-" + id, SubnetID: i.SubnetID, VpcID: region.VPCID, OwnerID: region.AccountID,
		Status: "in-use", InterfaceType: "interface",
		PrivateIPAddress: i.PrivateIP.String(), PrivateDNSName: i.PrivateDNS, SourceDestCheck: true, GroupSet: groups,
		Attachment: attachmentXML{
			AttachmentID: "eni-attach-" + id, Status: "attached",
			AttachTime: stamp(i.LaunchedAt), DeleteOnTermination: true,
		},
		PrivateIPAddresses: items(addressXML{
			PrivateIPAddress: i.PrivateIP.String(), PrivateDNSName: i.PrivateDNS,
			Primary: true,
		}),
	}
}

// ownInterfaceXML is an interface in the answer of DescribeNetworkInterfaces.
type ownInterfaceXML struct {
	interfaceXML     `filter:"."`
	AvailabilityZone string      `xml:"availabilityZone" filter:"availability-zone"`
	Description      string      `xml:"description" filter:"description"`
	MACAddress       string      `xml:"macAddress" filter:"mac-address"`
	RequesterManaged bool        `xml:"requesterManaged" filter:"requester-managed"`
	TagSet           set[tagXML] `xml:"tagSet" filter:"tag"`
}

// describeNetworkInterfaces answers with the interfaces of all instances. The addresses of an instance's pods are
// secondary addresses of its first interface; the region does not distribute them over further interfaces.
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
	id := func(x ownInterfaceXML) string { return x.NetworkInterfaceID }
	return described(c, "networkInterfaceSet", all, 1000, id, naming[ownInterfaceXML]{
		"NetworkInterfaceId", "InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id,
	})
}

// macOf is a locally administered hardware address, one for each address of the VPC.
func macOf(ip netip.Addr) string {
	b := ip.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}
