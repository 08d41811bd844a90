package region

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/catalog"
)

// VPCID and VPCCIDR describe the region's only VPC.
const (
	VPCID   = "vpc-0a1b2c3d4e5f60718"
	VPCCIDR = "10.0.0.0/8"
)

// Subnet is a subnet of the region's VPC.
type Subnet struct {
	ID, VPC, Zone, ZoneID string
	CIDR                  netip.Prefix
	Free                  int // unused addresses
	Tags                  map[string]string
}

// network allocates the addresses of the subnets.
type network struct {
	*core
	subnets []*subnet // the initial ones, one in each zone, then those created since
	own     int       // number of initial subnets
}

// subnet is a subnet and its address space.
type subnet struct {
	Subnet
	*addressSpace
}

func newNetwork(c *core, zones []catalog.Zone) *network {
	n := &network{core: c}
	for i, z := range zones {
		tags := c.discoveryTags(c.config.Discovery + "-private-" + z.Name)
		tags["kubernetes.io/role/internal-elb"], tags["kubernetes.io/role/cni"] = "1", "1"
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), c.config.SubnetBits)
		s := &subnet{addressSpace: newAddressSpace(cidr), Subnet: Subnet{
			ID: "subnet-" + c.fixedID("subnet", z.ID), VPC: VPCID, Zone: z.Name, ZoneID: z.ID, Tags: tags, CIDR: cidr,
		}}
		n.subnets = append(n.subnets, s)
	}
	n.own = len(n.subnets)
	return n
}

// discoveryTags returns the tags of resources that Karpenter discovers by karpenter.sh/discovery.
func (c *core) discoveryTags(name string) map[string]string {
	d := c.config.Discovery
	return map[string]string{"Name": name, "karpenter.sh/discovery": d, "kubernetes.io/cluster/" + d: "owned"}
}

func noSubnet(id string) *APIError {
	return apiError("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}

// VPCTags returns the tags of the VPC.
func (n *network) VPCTags() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tagged(VPCID, nil)
}

// Subnets returns the region's subnets with the number of their unused addresses.
func (n *network) Subnets() []Subnet {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]Subnet, len(n.subnets))
	for i, s := range n.subnets {
		out[i] = s.Subnet
		out[i].Free, out[i].Tags = s.free(), n.tagged(s.ID, s.Tags)
	}
	return out
}

func (n *network) subnet(id string) *subnet {
	i := slices.IndexFunc(n.subnets, func(s *subnet) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return n.subnets[i]
}

// subnetFor returns the subnet that an override names, else the first of its zone, else the first of all.
func (n *network) subnetFor(o Override) (*subnet, error) {
	i := slices.IndexFunc(n.subnets, func(s *subnet) bool {
		return (o.SubnetID == "" || s.ID == o.SubnetID) && (o.Zone == "" || s.Zone == o.Zone || s.ZoneID == o.Zone)
	})
	switch {
	case i >= 0:
		return n.subnets[i], nil
	case n.subnet(o.SubnetID) != nil:
		return nil, apiError("InvalidParameterCombination", "The subnet '%s' is in the Availability Zone %s, not in %s",
			o.SubnetID, n.subnet(o.SubnetID).Zone, o.Zone)
	case o.SubnetID != "":
		return nil, noSubnet(o.SubnetID)
	}
	return nil, apiError("InvalidParameterValue", "Invalid availability zone: [%s]", o.Zone)
}

// takeAddress takes the next unused address of a subnet and saves where the next search begins. A node's name derives
// from its address: a node that starts just after a restart must not get the name of one that is just ending.
func (n *network) takeAddress(s *subnet) (netip.Addr, bool) {
	ip, ok := s.takeNext()
	if ok {
		n.store.put(bucketMeta, metaNext+s.ID, s.address(s.next))
	}
	return ip, ok
}

// takeScattered takes a secondary address for an interface. EC2 assigns these in no particular order, so a subnet in
// use may have free addresses but no free prefix (EKS best practices guide, "Prefix Mode for Linux"). The words
// determine where the search begins.
func (n *network) takeScattered(s *subnet, words ...string) (netip.Addr, bool) {
	ip, _, ok := s.takeFrom(n.scattered(s, words...))
	return ip, ok
}

func (n *network) scattered(s *subnet, words ...string) int {
	return int(n.chance(append(words, s.ID)...) * float64(s.size()))
}

// occupy marks an address as used.
func (n *network) occupy(subnet string, ip netip.Addr) {
	if s := n.subnet(subnet); s != nil {
		s.occupy(ip)
	}
}

// privateDNS returns the DNS name that EC2 derives from an instance's address.
func (n *network) privateDNS(ip netip.Addr) string {
	domain := n.config.Name + ".compute.internal"
	if n.config.Name == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(ip.String(), ".", "-") + "." + domain
}
