package region

import (
	"encoding/json"
	"net/netip"
	"slices"
)

// SubnetRequest holds the parameters of CreateSubnet. Zone is a zone's name or ID; "" = the first one.
type SubnetRequest struct {
	Zone string
	CIDR netip.Prefix
	Tags map[string]string
}

// CreateSubnet creates a subnet in the VPC, in addition to the initial one in each zone.
func (n *network) CreateSubnet(q SubnetRequest) (Subnet, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := slices.IndexFunc(n.subnets,
		func(s *subnet) bool { return q.Zone == "" || s.Zone == q.Zone || s.ZoneID == q.Zone })
	vpc := netip.MustParsePrefix(VPCCIDR)
	switch {
	case at < 0:
		return Subnet{}, apiError("InvalidParameterValue", "Value (%s) for parameter availabilityZone is invalid. Subnets "+
			"can be created in the zones that DescribeAvailabilityZones returns.", q.Zone)
	case !q.CIDR.IsValid() || q.CIDR != q.CIDR.Masked() || q.CIDR.Bits() < 16 || q.CIDR.Bits() > 28 ||
		!vpc.Contains(q.CIDR.Addr()):
		return Subnet{}, apiError("InvalidSubnet.Range",
			"The CIDR '%s' is invalid: it has to be a block of %s, from a /16 to a /28.", q.CIDR, vpc)
	}
	if i := slices.IndexFunc(n.subnets, func(s *subnet) bool { return s.Subnet.CIDR.Overlaps(q.CIDR) }); i >= 0 {
		return Subnet{}, apiError("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet: %s (%s)", q.CIDR,
			n.subnets[i].ID, n.subnets[i].Subnet.CIDR)
	}
	s := Subnet{
		ID: "subnet-" + n.newID(), VPC: VPCID, Zone: n.subnets[at].Zone, ZoneID: n.subnets[at].ZoneID, CIDR: q.CIDR,
		Tags: q.Tags,
	}
	n.add(s)
	n.store.put(bucketSubnets, s.ID, s)
	s.Free = n.subnet(s.ID).free()
	return s, n.commit()
}

func (n *network) add(s Subnet) {
	n.subnets = append(n.subnets, &subnet{Subnet: s, addressSpace: newAddressSpace(s.CIDR)})
}

// DeleteSubnet deletes a subnet made by CreateSubnet in which no address is used.
func (n *network) DeleteSubnet(id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.subnets, func(s *subnet) bool { return s.ID == id })
	switch {
	case i < 0:
		return noSubnet(id)
	case n.subnets[i].taken > 0:
		return apiError("DependencyViolation", "The subnet '%s' has dependencies and cannot be deleted.", id)
	case i < n.own:
		return apiError("OperationNotPermitted", "The subnet '%s' is one of those that the simulated region begins with", id)
	}
	for _, q := range n.subnets[i].reserved {
		delete(n.tags, q.ID)
		n.store.remove(bucketReservations, q.ID)
		n.store.remove(bucketTags, q.ID)
	}
	n.subnets = slices.Delete(n.subnets, i, i+1)
	delete(n.tags, id)
	n.store.remove(bucketSubnets, id)
	n.store.remove(bucketTags, id)
	return n.commit()
}

func (n *network) restoreSubnet(_ string, value []byte) error {
	var s Subnet
	if err := json.Unmarshal(value, &s); err != nil {
		return err
	}
	n.add(s)
	return nil
}
