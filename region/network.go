package region

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/catalog"
)

// VPCID and VPCCIDR describe the region's one VPC.
const (
	VPCID   = "vpc-0a1b2c3d4e5f60718"
	VPCCIDR = "10.0.0.0/8"
)

// awsReserved addresses of a subnet belong to AWS: the first four and the last.
const awsReserved = 5

// Subnet is a subnet of the region's VPC.
type Subnet struct {
	ID, VPC, Zone, ZoneID string
	CIDR                  netip.Prefix
	Free                  int // unused addresses
	Tags                  map[string]string
}

// network hands out the addresses of the subnets.
type network struct {
	*core
	subnets []*subnet // one in each zone
}

// subnet is a subnet and its addresses.
type subnet struct {
	Subnet
	used map[netip.Addr]bool
	next netip.Addr // where the search for an unused address begins
}

func newNetwork(c *core, zones []catalog.Zone) *network {
	n := &network{core: c}
	for i, z := range zones {
		tags := c.discoveryTags(c.config.Discovery + "-private-" + z.Name)
		tags["kubernetes.io/role/internal-elb"], tags["kubernetes.io/role/cni"] = "1", "1"
		s := &subnet{used: map[netip.Addr]bool{}, Subnet: Subnet{
			ID: "subnet-" + c.fixedID("subnet", z.ID), VPC: VPCID, Zone: z.Name, ZoneID: z.ID, Tags: tags,
			CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), c.config.SubnetBits),
		}}
		s.next = s.first()
		n.subnets = append(n.subnets, s)
	}
	return n
}

// discoveryTags returns the tags of what an installation of Karpenter finds by karpenter.sh/discovery.
func (c *core) discoveryTags(name string) map[string]string {
	d := c.config.Discovery
	return map[string]string{"Name": name, "karpenter.sh/discovery": d, "kubernetes.io/cluster/" + d: "owned"}
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

// subnetFor finds the subnet that an override names, or that of its zone, or the first.
func (n *network) subnetFor(o Override) (*subnet, error) {
	i := slices.IndexFunc(n.subnets, func(s *subnet) bool {
		return (o.SubnetID == "" || s.ID == o.SubnetID) && (o.Zone == "" || s.Zone == o.Zone)
	})
	switch {
	case i >= 0:
		return n.subnets[i], nil
	case o.SubnetID != "":
		return nil, apiError("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", o.SubnetID)
	}
	return nil, apiError("InvalidParameterValue", "Invalid availability zone: [%s]", o.Zone)
}

// takeAddress takes the next unused address of a subnet and saves where the next search begins. A node's name is made
// of its address: one that starts just after a restart must not get the name of one that is just ending.
func (n *network) takeAddress(s *subnet) (netip.Addr, bool) {
	ip, ok := s.take()
	if ok {
		n.store.put(bucketMeta, metaNext+s.ID, s.next)
	}
	return ip, ok
}

func (n *network) freeAddress(subnet string, ip netip.Addr) {
	if s := n.subnet(subnet); s != nil {
		delete(s.used, ip)
	}
}

// occupy marks an address as used.
func (n *network) occupy(subnet string, ip netip.Addr) {
	if s := n.subnet(subnet); s != nil {
		s.used[ip] = true
	}
}

func (s *subnet) free() int { return 1<<(32-s.CIDR.Bits()) - awsReserved - len(s.used) }

// first returns the first address that does not belong to AWS.
func (s *subnet) first() netip.Addr {
	ip := s.CIDR.Addr()
	for range awsReserved - 1 {
		ip = ip.Next()
	}
	return ip
}

// take goes around the subnet, so that an address that was freed rests for a while.
func (s *subnet) take() (netip.Addr, bool) {
	if s.free() <= 0 {
		return netip.Addr{}, false
	}
	for {
		ip := s.next
		s.next = ip.Next()
		if !s.CIDR.Contains(s.next) || !s.CIDR.Contains(s.next.Next()) { // the last address is AWS's
			s.next = s.first()
		}
		if !s.used[ip] {
			s.used[ip] = true
			return ip, true
		}
	}
}

// privateDNS returns the name that EC2 gives an instance for its address.
func (n *network) privateDNS(ip netip.Addr) string {
	domain := n.config.Name + ".compute.internal"
	if n.config.Name == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(ip.String(), ".", "-") + "." + domain
}
