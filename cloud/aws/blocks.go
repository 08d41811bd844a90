package aws

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"math/bits"
	"net/netip"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
)

// DelegatePrefixes sets whether pods get /28 prefixes of subnets. A prefix is a free block: addresses that are
// scattered over a subnet are of no use then, and from the next time that subnets are read they are counted.
func (p *Provider) DelegatePrefixes(on bool) { p.subnets.prefixes.Store(on) }

// countUsable records how many addresses of known subnets nodes can use: all that are free, unless pods get prefixes.
// If that cannot be read, the previous numbers remain; without the permission, all count as usable.
func (b *subnetTracker) countUsable(ctx context.Context, subnets []ec2types.Subnet) {
	blocks, err := b.readBlocks(ctx, subnets)
	switch {
	case errors.Is(err, cloud.ErrUnauthorized):
		blocks = nil
		b.denied.Do(func() {
			b.log.Warn("free /28 blocks of subnets are not counted, so nodes may be launched in a subnet whose free addresses "+
				"are too scattered for the prefixes of their pods", "error", err)
		})
	case err != nil:
		b.log.Warn("the numbers of free /28 blocks of subnets are out of date", "error", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range subnets {
		k := b.known[awssdk.ToString(s.SubnetId)]
		k.usable = math.MaxInt64
		if m := blocks[awssdk.ToString(s.SubnetId)]; m != nil {
			k.usable = m.usable()
		}
	}
}

// maxFilterValues is how many values a filter of EC2 takes (EC2 API reference, "Filter").
const maxFilterValues = 200

// readBlocks reads which addresses of subnets are taken, by ID; nothing unless pods get prefixes. EC2 does not say how
// scattered free addresses are: that follows from the network interfaces and the CIDR reservations of a subnet.
func (b *subnetTracker) readBlocks(ctx context.Context, subnets []ec2types.Subnet) (map[string]*blockMap, error) {
	if !b.prefixes.Load() {
		return nil, nil
	}
	out := map[string]*blockMap{}
	for _, s := range subnets {
		cidr, err := netip.ParsePrefix(awssdk.ToString(s.CidrBlock))
		if err == nil && cidr.Addr().Is4() && cidr.Bits() <= blockBits {
			out[awssdk.ToString(s.SubnetId)] = newBlockMap(cidr.Masked())
		}
	}
	all := slices.Sorted(maps.Keys(out))
	for ids := range slices.Chunk(all, maxFilterValues) {
		pages := ec2.NewDescribeNetworkInterfacesPaginator(b.ec2, &ec2.DescribeNetworkInterfacesInput{
			Filters: []ec2types.Filter{filter("subnet-id", ids...)}, MaxResults: awssdk.Int32(1000),
		})
		err := eachPage(ctx, pages, "describe network interfaces", "ec2:DescribeNetworkInterfaces",
			func(page *ec2.DescribeNetworkInterfacesOutput) {
				for i := range page.NetworkInterfaces {
					e := &page.NetworkInterfaces[i]
					if m := out[awssdk.ToString(e.SubnetId)]; m != nil {
						m.add(e)
					}
				}
			})
		if err != nil {
			return nil, err
		}
	}
	for _, id := range all {
		if err := b.readReservations(ctx, id, out[id]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *subnetTracker) readReservations(ctx context.Context, id string, into *blockMap) error {
	in := &ec2.GetSubnetCidrReservationsInput{SubnetId: &id}
	for {
		out, err := b.ec2.GetSubnetCidrReservations(ctx, in)
		if err != nil {
			return wrap("get the CIDR reservations of "+id, "ec2:GetSubnetCidrReservations", err)
		}
		for i := range out.SubnetIpv4CidrReservations {
			into.reserve(&out.SubnetIpv4CidrReservations[i])
		}
		if in.NextToken = out.NextToken; awssdk.ToString(in.NextToken) == "" {
			return nil
		}
	}
}

// blockBits is the length of a delegated prefix.
const blockBits = 28

// blockMap says which addresses of a subnet are taken, by blocks that a prefix can have.
type blockMap struct {
	cidr     netip.Prefix
	taken    []uint16 // by block, a bit for each address: in use, or never assigned by EC2
	reserved []bool   // by block: for prefixes, so that EC2 assigns no single address of it
}

// newBlockMap returns the map of a subnet without interfaces: AWS has the first four addresses and the last (VPC user
// guide, "Subnet sizing for IPv4").
func newBlockMap(cidr netip.Prefix) *blockMap {
	n := 1 << (blockBits - cidr.Bits())
	m := &blockMap{cidr: cidr, taken: make([]uint16, n), reserved: make([]bool, n)}
	m.taken[0] = 1<<4 - 1
	m.taken[n-1] |= 1 << (catalog.PrefixSize - 1)
	return m
}

func (m *blockMap) add(e *ec2types.NetworkInterface) {
	for _, ip := range e.PrivateIpAddresses {
		m.take(awssdk.ToString(ip.PrivateIpAddress) + "/32")
	}
	for _, p := range e.Ipv4Prefixes {
		m.take(awssdk.ToString(p.Ipv4Prefix))
	}
}

// reserve adds a CIDR reservation. EC2 itself assigns prefixes of a reservation of type prefix, and nothing of one of
// type explicit (VPC user guide, "Subnet CIDR reservations").
func (m *blockMap) reserve(r *ec2types.SubnetCidrReservation) {
	if r.ReservationType == ec2types.SubnetCidrReservationTypeExplicit {
		m.take(awssdk.ToString(r.Cidr))
		return
	}
	for i := range m.offsets(awssdk.ToString(r.Cidr)) {
		m.reserved[i/catalog.PrefixSize] = true
	}
}

func (m *blockMap) take(cidr string) {
	for i := range m.offsets(cidr) {
		m.taken[i/catalog.PrefixSize] |= 1 << (i % catalog.PrefixSize)
	}
}

// offsets yields the addresses of a range in the subnet, as offsets.
func (m *blockMap) offsets(cidr string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		p, err := netip.ParsePrefix(cidr)
		if err != nil || !p.Addr().Is4() || p.Bits() < m.cidr.Bits() || !m.cidr.Contains(p.Addr()) {
			return
		}
		from, at := m.cidr.Addr().As4(), p.Masked().Addr().As4()
		first := int(binary.BigEndian.Uint32(at[:]) - binary.BigEndian.Uint32(from[:]))
		for i := range 1 << (32 - p.Bits()) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// usable returns how many addresses nodes can use whose pods get prefixes: those of free blocks. A node also has
// single addresses, one for each of its interfaces. EC2 may take them from any block that is not reserved for prefixes,
// so they count against the blocks. If all free blocks are reserved, single addresses come from elsewhere and count in
// addition, as long as they do not add up to a block.
func (m *blockMap) usable() int64 {
	blocks, single, breakable := 0, 0, false
	for i, taken := range m.taken {
		switch {
		case taken == 0:
			blocks++
			breakable = breakable || !m.reserved[i]
		case !m.reserved[i]:
			single += catalog.PrefixSize - bits.OnesCount16(taken)
		}
	}
	if breakable {
		single = 0
	}
	return int64(catalog.PrefixSize*blocks + min(single, catalog.PrefixSize-1))
}
