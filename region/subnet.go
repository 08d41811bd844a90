package region

import (
	"math/bits"
	"net/netip"
)

// blockSize is the number of addresses of a delegated prefix, a /28. Its first address is a multiple of blockSize.
const blockSize = 16

// addressSpace tracks which addresses of a subnet are used. It is divided into blocks, the /28 prefixes that a
// network interface can have: a prefix needs a block without used addresses.
type addressSpace struct {
	cidr     netip.Prefix
	used     []uint16 // by block: a bit for each address
	taken    int      // used addresses, excluding AWS's own
	next     int      // offset at which the search for an instance's address begins
	reserved []Reservation
}

// awsReserved is the number of addresses of a subnet that belong to AWS: the first four and the last.
const awsReserved = 5

func newAddressSpace(cidr netip.Prefix) *addressSpace {
	s := &addressSpace{cidr: cidr, used: make([]uint16, 1<<(28-cidr.Bits())), next: awsReserved - 1}
	s.used[0] = 1<<(awsReserved-1) - 1
	s.used[len(s.used)-1] |= 1 << (blockSize - 1)
	return s
}

func (s *addressSpace) size() int { return len(s.used) * blockSize }

// free returns the number of unused addresses.
func (s *addressSpace) free() int { return s.size() - awsReserved - s.taken }

func (s *addressSpace) address(offset int) netip.Addr {
	b := s.cidr.Addr().As4()
	n := (uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])) + uint32(offset)
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// offset returns an address's offset in the subnet, and whether it belongs to the subnet.
func (s *addressSpace) offset(ip netip.Addr) (int, bool) {
	if !s.cidr.Contains(ip) {
		return 0, false
	}
	a, b := s.cidr.Addr().As4(), ip.As4()
	n := 0
	for i := range a {
		n = n<<8 | int(b[i]-a[i])
	}
	return n, true
}

func (s *addressSpace) isUsed(offset int) bool {
	return s.used[offset/blockSize]>>(offset%blockSize)&1 == 1
}

// occupy marks an address as used, and reports whether it was free.
func (s *addressSpace) occupy(ip netip.Addr) bool {
	n, ok := s.offset(ip)
	if !ok || s.isUsed(n) {
		return false
	}
	s.used[n/blockSize] |= 1 << (n % blockSize)
	s.taken++
	return true
}

// release marks an address as unused.
func (s *addressSpace) release(ip netip.Addr) {
	if n, ok := s.offset(ip); ok && s.isUsed(n) {
		s.used[n/blockSize] &^= 1 << (n % blockSize)
		s.taken--
	}
}

// takeNext takes the next unused address for an instance. It goes around the subnet, so that a freed address is not
// reused for a while: a node's name derives from it.
func (s *addressSpace) takeNext() (netip.Addr, bool) {
	ip, at, ok := s.takeFrom(s.next)
	if ok {
		s.next = (at + 1) % s.size()
	}
	return ip, ok
}

// takeFrom takes the first unused address at or after an offset, wrapping around.
func (s *addressSpace) takeFrom(start int) (ip netip.Addr, at int, ok bool) {
	for i := range s.size() {
		at = (start + i) % s.size()
		if s.used[at/blockSize] == 1<<blockSize-1 || s.isUsed(at) || s.reservedFor(at) != "" {
			continue
		}
		ip = s.address(at)
		return ip, at, s.occupy(ip)
	}
	return ip, 0, false
}

// takePrefix takes a block without used addresses: one reserved for prefixes if there is one, else the first at or
// after an offset. ok is false if there is none, which happens even with many free addresses if they are scattered.
func (s *addressSpace) takePrefix(start int) (prefix netip.Prefix, ok bool) {
	for _, want := range []string{ReservePrefix, ""} {
		for i := range s.used {
			n := (start/blockSize + i) % len(s.used)
			if s.used[n] != 0 || s.blockReservedFor(n) != want {
				continue
			}
			s.used[n] = 1<<blockSize - 1
			s.taken += blockSize
			return netip.PrefixFrom(s.address(n*blockSize), 28), true
		}
	}
	return prefix, false
}

// occupyPrefix marks a block as used.
func (s *addressSpace) occupyPrefix(p netip.Prefix) {
	for i := range blockSize {
		if n, ok := s.offset(p.Addr()); ok {
			s.occupy(s.address(n + i))
		}
	}
}

func (s *addressSpace) releasePrefix(p netip.Prefix) {
	if n, ok := s.offset(p.Addr()); ok {
		s.taken -= bits.OnesCount16(s.used[n/blockSize])
		s.used[n/blockSize] = 0
	}
}

// reservedFor returns the type of the reservation that an address belongs to; "" for none.
func (s *addressSpace) reservedFor(offset int) string {
	if len(s.reserved) == 0 {
		return ""
	}
	ip := s.address(offset)
	for i := range s.reserved {
		if s.reserved[i].CIDR.Contains(ip) {
			return s.reserved[i].Type
		}
	}
	return ""
}

// blockReservedFor returns the type of the reservations that a block belongs to, even in part; "" for none. One of type
// prefix has whole blocks, so that it shares none with others.
func (s *addressSpace) blockReservedFor(n int) string {
	block := netip.PrefixFrom(s.address(n*blockSize), 28)
	for i := range s.reserved {
		if s.reserved[i].CIDR.Overlaps(block) {
			return s.reserved[i].Type
		}
	}
	return ""
}
