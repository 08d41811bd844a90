package awsapi

import (
	"github.com/nodeless/nodeless/region"
)

// Places and networks: zones, regions, VPCs, subnets.

type subnetXML struct {
	SubnetID           string      `xml:"subnetId" filter:"subnet-id"`
	SubnetARN          string      `xml:"subnetArn" filter:"subnet-arn"`
	State              string      `xml:"state" filter:"state"`
	OwnerID            string      `xml:"ownerId" filter:"owner-id"`
	VpcID              string      `xml:"vpcId" filter:"vpc-id"`
	CIDRBlock          string      `xml:"cidrBlock" filter:"cidr-block,cidr"`
	AvailableAddresses int         `xml:"availableIpAddressCount" filter:"available-ip-address-count"`
	AvailabilityZone   string      `xml:"availabilityZone" filter:"availability-zone"`
	AvailabilityZoneID string      `xml:"availabilityZoneId" filter:"availability-zone-id"`
	DefaultForAZ       bool        `xml:"defaultForAz" filter:"default-for-az"`
	MapPublicIP        bool        `xml:"mapPublicIpOnLaunch" filter:"map-public-ip-on-launch"`
	TagSet             set[tagXML] `xml:"tagSet" filter:"tag"`
}

func describeSubnets(c *call) (any, error) {
	all := setOf(c.region.Subnets(), func(s region.Subnet) subnetXML {
		return subnetXML{
			SubnetID: s.ID, SubnetARN: "arn:aws:ec2:" + c.region.Name() + ":" + region.AccountID + ":subnet/" + s.ID,
			State:   "available",
			OwnerID: region.AccountID, VpcID: s.VPC, CIDRBlock: s.CIDR.String(), AvailableAddresses: s.Free,
			AvailabilityZone: s.Zone, AvailabilityZoneID: s.ZoneID, TagSet: tagsOf(s.Tags),
		}
	}).Items
	id := func(s subnetXML) string { return s.SubnetID }
	return described(c, "subnetSet", all, 1000, id,
		naming[subnetXML]{"SubnetId", "InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id})
}

type vpcXML struct {
	VpcID     string      `xml:"vpcId" filter:"vpc-id"`
	OwnerID   string      `xml:"ownerId" filter:"owner-id"`
	State     string      `xml:"state" filter:"state"`
	CIDRBlock string      `xml:"cidrBlock" filter:"cidr"`
	Tenancy   string      `xml:"instanceTenancy"`
	IsDefault bool        `xml:"isDefault" filter:"is-default"`
	TagSet    set[tagXML] `xml:"tagSet" filter:"tag"`
}

// describeVpcs answers with the one VPC.
func describeVpcs(c *call) (any, error) {
	all := []vpcXML{{
		VpcID: region.VPCID, OwnerID: region.AccountID, State: "available", CIDRBlock: region.VPCCIDR,
		Tenancy: "default",
	}}
	id := func(v vpcXML) string { return v.VpcID }
	return described(c, "vpcSet", all, 1000, id,
		naming[vpcXML]{"VpcId", "InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id})
}

type zoneXML struct {
	ZoneName     string `xml:"zoneName" filter:"zone-name"`
	ZoneID       string `xml:"zoneId" filter:"zone-id"`
	State        string `xml:"zoneState" filter:"state"`
	RegionName   string `xml:"regionName" filter:"region-name"`
	GroupName    string `xml:"groupName" filter:"group-name"`
	BorderGroup  string `xml:"networkBorderGroup"`
	ZoneType     string `xml:"zoneType" filter:"zone-type"`
	OptInStatus  string `xml:"optInStatus" filter:"opt-in-status"`
	MessageSlots string `xml:"messageSet"`
}

func describeAvailabilityZones(c *call) (any, error) {
	region := c.region.Name()
	var all []zoneXML
	for _, z := range c.region.Zones() {
		all = append(all, zoneXML{
			ZoneName: z.Name, ZoneID: z.ID, State: "available", RegionName: region, GroupName: region,
			BorderGroup: region, ZoneType: "availability-zone", OptInStatus: "opt-in-not-required",
		})
	}
	const code = "InvalidParameterValue"
	found, err := chosenFrom(c, all,
		naming[zoneXML]{"ZoneName", code, "Invalid availability zone: [%s]", func(z zoneXML) string { return z.ZoneName }},
		naming[zoneXML]{"ZoneId", code, "Invalid availability zone id: [%s]", func(z zoneXML) string { return z.ZoneID }})
	return listing[zoneXML]{element: "availabilityZoneInfo", items: found}, err
}

type regionXML struct {
	Name        string `xml:"regionName" filter:"region-name"`
	Endpoint    string `xml:"regionEndpoint" filter:"endpoint"`
	OptInStatus string `xml:"optInStatus" filter:"opt-in-status"`
}

// describeRegions answers with this region.
func describeRegions(c *call) (any, error) {
	name := c.region.Name()
	all := []regionXML{{Name: name, Endpoint: "ec2." + name + ".amazonaws.com", OptInStatus: "opt-in-not-required"}}
	found, err := chosenFrom(c, all,
		naming[regionXML]{
			"RegionName", "InvalidParameterValue", "Invalid region provided: [%s]",
			func(r regionXML) string { return r.Name },
		})
	return listing[regionXML]{element: "regionInfo", items: found}, err
}

// describeCapacityReservations: the region has none.
func describeCapacityReservations(c *call) (any, error) {
	if ids := c.form.strs("CapacityReservationId"); len(ids) > 0 {
		return nil, failure(400, "InvalidCapacityReservationId.NotFound",
			"The capacity reservation '"+ids[0]+"' does not exist")
	}
	return listing[string]{element: "capacityReservationSet"}, nil
}

// describePlacementGroups: the region has none.
func describePlacementGroups(c *call) (any, error) {
	if names := append(c.form.strs("GroupName"), c.form.strs("GroupId")...); len(names) > 0 {
		return nil, failure(400, "InvalidPlacementGroup.Unknown", "The placement group '"+names[0]+"' is unknown")
	}
	return listing[string]{element: "placementGroupSet"}, nil
}
