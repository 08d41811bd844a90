package awsapi

import (
	"strconv"

	"github.com/nodeless/nodeless/region"
)

// Places and networks: zones, regions, VPCs, subnets.

type subnetXML struct {
	SubnetID           string      `xml:"subnetId"`
	SubnetARN          string      `xml:"subnetArn"`
	State              string      `xml:"state"`
	OwnerID            string      `xml:"ownerId"`
	VpcID              string      `xml:"vpcId"`
	CIDRBlock          string      `xml:"cidrBlock"`
	AvailableAddresses int         `xml:"availableIpAddressCount"`
	AvailabilityZone   string      `xml:"availabilityZone"`
	AvailabilityZoneID string      `xml:"availabilityZoneId"`
	DefaultForAZ       bool        `xml:"defaultForAz"`
	MapPublicIP        bool        `xml:"mapPublicIpOnLaunch"`
	TagSet             set[tagXML] `xml:"tagSet"`
}

func (s subnetXML) id() string { return s.SubnetID }

func (s subnetXML) attributes() attributes {
	return attributes{
		"subnet-id": {s.SubnetID}, "vpc-id": {s.VpcID}, "state": {s.State}, "owner-id": {s.OwnerID}, "subnet-arn": {s.SubnetARN},
		"cidr-block": {s.CIDRBlock}, "cidr": {s.CIDRBlock}, "availability-zone": {s.AvailabilityZone}, "availability-zone-id": {s.AvailabilityZoneID},
		"available-ip-address-count": {strconv.Itoa(s.AvailableAddresses)}, "default-for-az": boolText(s.DefaultForAZ),
		"map-public-ip-on-launch": boolText(s.MapPublicIP),
	}.withTags(tagMap(s.TagSet))
}

type subnetsAnswer struct {
	Subnets   set[subnetXML] `xml:"subnetSet"`
	NextToken string         `xml:"nextToken,omitempty"`
}

func describeSubnets(c *call) (any, error) {
	all := setOf(c.region.Subnets(), func(s region.Subnet) subnetXML {
		return subnetXML{
			SubnetID: s.ID, SubnetARN: "arn:aws:ec2:" + c.region.Name() + ":" + region.AccountID + ":subnet/" + s.ID, State: "available",
			OwnerID: region.AccountID, VpcID: s.VPC, CIDRBlock: s.CIDR.String(), AvailableAddresses: s.Free,
			AvailabilityZone: s.Zone, AvailabilityZoneID: s.ZoneID, TagSet: tagsOf(s.Tags),
		}
	}).Items
	found, err := named(all, c.form.strs("SubnetId"), subnetXML.id, "InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist")
	if err == nil {
		found, err = selected(found, c.filters(), subnetXML.attributes)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 1000, subnetXML.id)
	return subnetsAnswer{Subnets: set[subnetXML]{Items: found}, NextToken: next}, err
}

type vpcXML struct {
	VpcID     string      `xml:"vpcId"`
	OwnerID   string      `xml:"ownerId"`
	State     string      `xml:"state"`
	CIDRBlock string      `xml:"cidrBlock"`
	Tenancy   string      `xml:"instanceTenancy"`
	IsDefault bool        `xml:"isDefault"`
	TagSet    set[tagXML] `xml:"tagSet"`
}

func (v vpcXML) id() string { return v.VpcID }

func (v vpcXML) attributes() attributes {
	return attributes{
		"vpc-id": {v.VpcID}, "owner-id": {v.OwnerID}, "state": {v.State}, "cidr": {v.CIDRBlock}, "is-default": boolText(v.IsDefault),
	}.withTags(tagMap(v.TagSet))
}

type vpcsAnswer struct {
	Vpcs      set[vpcXML] `xml:"vpcSet"`
	NextToken string      `xml:"nextToken,omitempty"`
}

// describeVpcs tells of the one VPC there is.
func describeVpcs(c *call) (any, error) {
	all := []vpcXML{{VpcID: region.VPCID, OwnerID: region.AccountID, State: "available", CIDRBlock: region.VPCCIDR, Tenancy: "default"}}
	found, err := named(all, c.form.strs("VpcId"), vpcXML.id, "InvalidVpcID.NotFound", "The vpc ID '%s' does not exist")
	if err == nil {
		found, err = selected(found, c.filters(), vpcXML.attributes)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 1000, vpcXML.id)
	return vpcsAnswer{Vpcs: set[vpcXML]{Items: found}, NextToken: next}, err
}

type zoneXML struct {
	ZoneName     string `xml:"zoneName"`
	ZoneID       string `xml:"zoneId"`
	State        string `xml:"zoneState"`
	RegionName   string `xml:"regionName"`
	GroupName    string `xml:"groupName"`
	BorderGroup  string `xml:"networkBorderGroup"`
	ZoneType     string `xml:"zoneType"`
	OptInStatus  string `xml:"optInStatus"`
	MessageSlots string `xml:"messageSet"`
}

func (z zoneXML) name() string { return z.ZoneName }

func (z zoneXML) id() string { return z.ZoneID }

func (z zoneXML) attributes() attributes {
	return attributes{
		"zone-name": {z.ZoneName}, "zone-id": {z.ZoneID}, "state": {z.State}, "region-name": {z.RegionName}, "group-name": {z.GroupName},
		"zone-type": {z.ZoneType}, "opt-in-status": {z.OptInStatus},
	}
}

type zonesAnswer struct {
	Zones set[zoneXML] `xml:"availabilityZoneInfo"`
}

func (c *call) answerZones(all []zoneXML) (any, error) {
	found, err := named(all, c.form.strs("ZoneName"), zoneXML.name, "InvalidParameterValue", "Invalid availability zone: [%s]")
	if err == nil {
		found, err = named(found, c.form.strs("ZoneId"), zoneXML.id, "InvalidParameterValue", "Invalid availability zone id: [%s]")
	}
	if err == nil {
		found, err = selected(found, c.filters(), zoneXML.attributes)
	}
	return zonesAnswer{Zones: set[zoneXML]{Items: found}}, err
}

type regionXML struct {
	Name        string `xml:"regionName"`
	Endpoint    string `xml:"regionEndpoint"`
	OptInStatus string `xml:"optInStatus"`
}

func (r regionXML) name() string { return r.Name }

func (r regionXML) attributes() attributes {
	return attributes{"region-name": {r.Name}, "endpoint": {r.Endpoint}, "opt-in-status": {r.OptInStatus}}
}

type regionsAnswer struct {
	Regions set[regionXML] `xml:"regionInfo"`
}

// describeRegions tells of the one region there is.
func describeRegions(c *call) (any, error) {
	name := c.region.Name()
	all := []regionXML{{Name: name, Endpoint: "ec2." + name + ".amazonaws.com", OptInStatus: "opt-in-not-required"}}
	found, err := named(all, c.form.strs("RegionName"), regionXML.name, "InvalidParameterValue", "Invalid region provided: [%s]")
	if err == nil {
		found, err = selected(found, c.filters(), regionXML.attributes)
	}
	return regionsAnswer{Regions: set[regionXML]{Items: found}}, err
}

type reservationlessAnswer struct {
	Reservations set[string] `xml:"capacityReservationSet"`
}

// describeCapacityReservations: the region has none.
func describeCapacityReservations(c *call) (any, error) {
	if ids := c.form.strs("CapacityReservationId"); len(ids) > 0 {
		return nil, failure(400, "InvalidCapacityReservationId.NotFound", "The capacity reservation '"+ids[0]+"' does not exist")
	}
	return reservationlessAnswer{}, nil
}

type placementGroupsAnswer struct {
	Groups set[string] `xml:"placementGroupSet"`
}

// describePlacementGroups: the region has none.
func describePlacementGroups(c *call) (any, error) {
	if names := append(c.form.strs("GroupName"), c.form.strs("GroupId")...); len(names) > 0 {
		return nil, failure(400, "InvalidPlacementGroup.Unknown", "The placement group '"+names[0]+"' is unknown")
	}
	return placementGroupsAnswer{}, nil
}
