package region

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
)

// Subnet is a subnet of the region's VPC.
type Subnet struct {
	ID, VPC, Zone, ZoneID string
	CIDR                  netip.Prefix
	Free                  int // addresses not in use; filled in when asked for
	Tags                  map[string]string
}

// VPCID and VPCCIDR are the region's one VPC.
const (
	VPCID   = "vpc-0a1b2c3d4e5f60718"
	VPCCIDR = "10.0.0.0/8"
)

// awsReserved addresses of a subnet belong to AWS: the first four and the last.
const awsReserved = 5

// addresses are the addresses of one subnet that are taken.
type addresses struct {
	prefix netip.Prefix
	used   map[netip.Addr]bool
	next   netip.Addr
}

// PodAddress is an address a pod holds.
type PodAddress struct {
	InstanceID string
	SubnetID   string
	IP         netip.Addr
}

// furnish makes what an account has before anybody launches anything: subnets, groups, images, a role.
func (r *Region) furnish() {
	tags := func(name string) map[string]string {
		return map[string]string{"Name": name, "karpenter.sh/discovery": r.c.Discovery, "kubernetes.io/cluster/" + r.c.Discovery: "owned"}
	}
	for n, z := range r.goods.Zones() {
		id := "subnet-" + r.fixedID("subnet", z.ID)
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n), 0, 0}), r.c.SubnetBits)
		t := tags(r.c.Discovery + "-private-" + z.Name)
		t["kubernetes.io/role/internal-elb"], t["kubernetes.io/role/cni"] = "1", "1"
		r.subnets = append(r.subnets, &Subnet{ID: id, VPC: VPCID, Zone: z.Name, ZoneID: z.ID, CIDR: prefix, Tags: t})
		first := prefix.Addr()
		for range awsReserved - 1 {
			first = first.Next()
		}
		r.addresses[id] = &addresses{prefix: prefix, used: map[netip.Addr]bool{}, next: first}
	}
	r.groups = []*SecurityGroup{
		{ID: "sg-" + r.fixedID("group", "node"), Name: r.c.Discovery + "-node", Description: "nodes of the cluster", VPC: VPCID, Tags: tags(r.c.Discovery + "-node")},
		{ID: "sg-" + r.fixedID("group", "default"), Name: "default", Description: "default VPC security group", VPC: VPCID, Tags: map[string]string{}},
	}
	r.furnishImages()
}

// fixedID is 17 hexadecimal digits drawn from words, the same in every run and for every seed.
func (r *Region) fixedID(words ...string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(r.c.Name + "/" + strings.Join(words, "/")))
	return fmt.Sprintf("%x", h.Sum(nil))[:17]
}

// newID is 17 hexadecimal digits that no other resource of this region has: 8 drawn from the seed, 9 that grow.
func (r *Region) newID() string {
	r.sequence++
	r.store.put(bucketMeta, "sequence", r.sequence)
	h := fnv.New128a()
	_, _ = fmt.Fprintf(h, "%s/%d/%d", r.c.Name, r.c.Seed, r.sequence)
	return fmt.Sprintf("%x%x", h.Sum(nil)[:4], r.sequence+0x100000000)[:17]
}

// sequencePart is the part of an id that grows.
func sequencePart(id string) string { return id[max(len(id)-9, 0):] }

// Subnets are the region's subnets with their free addresses now.
func (r *Region) Subnets() []Subnet {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Subnet, len(r.subnets))
	for i, s := range r.subnets {
		out[i] = *s
		out[i].Free = r.addresses[s.ID].free()
		out[i].Tags = merged(s.Tags, r.tags[s.ID])
	}
	return out
}

// subnetFor finds the subnet an override names, or that of its zone, or the first.
func (r *Region) subnetFor(o Override) (*Subnet, error) {
	i := slices.IndexFunc(r.subnets, func(s *Subnet) bool {
		return (o.SubnetID == "" || s.ID == o.SubnetID) && (o.Zone == "" || s.Zone == o.Zone)
	})
	switch {
	case i >= 0:
		return r.subnets[i], nil
	case o.SubnetID != "":
		return nil, apiError("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", o.SubnetID)
	}
	return nil, apiError("InvalidParameterValue", "Invalid availability zone: [%s]", o.Zone)
}

func (a *addresses) free() int {
	return 1<<(32-a.prefix.Bits()) - awsReserved - len(a.used)
}

// take gives the next free address, going round the subnet, so that one that was freed rests for a while.
func (a *addresses) take() (netip.Addr, bool) {
	if a.free() <= 0 {
		return netip.Addr{}, false
	}
	for {
		ip := a.next
		a.next = ip.Next()
		if !a.prefix.Contains(a.next) || !a.prefix.Contains(a.next.Next()) { // the last address is AWS's
			a.next = a.prefix.Addr()
			for range awsReserved - 1 {
				a.next = a.next.Next()
			}
		}
		if !a.used[ip] {
			a.used[ip] = true
			return ip, true
		}
	}
}

// Keys of the state file's meta bucket; all others there hold the sequence.
const (
	metaCluster = "cluster"
	metaNext    = "next/" // + subnet id
)

// takeAddress also keeps where the round stands: a node's name is made of its address, and a node that starts just after a
// restart must not have the name of one that is just going.
func (r *Region) takeAddress(subnet string) (netip.Addr, bool) {
	ip, ok := r.addresses[subnet].take()
	if ok {
		r.store.put(bucketMeta, metaNext+subnet, r.addresses[subnet].next)
	}
	return ip, ok
}

// privateDNS is the name EC2 gives an instance by its address.
func (r *Region) privateDNS(ip netip.Addr) string {
	domain := r.c.Name + ".compute.internal"
	if r.c.Name == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(ip.String(), ".", "-") + "." + domain
}

func (r *Region) freeAddress(subnet string, ip netip.Addr) {
	if a := r.addresses[subnet]; a != nil {
		delete(a.used, ip)
	}
}
