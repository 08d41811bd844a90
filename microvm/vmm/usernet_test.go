package vmm

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

var userNet = &UserNet{
	Prefix: netip.MustParsePrefix("10.201.0.0/16"), Gateway: netip.MustParseAddr("10.201.0.1"),
	DNS:   netip.MustParseAddr("10.201.0.2"),
	First: netip.MustParseAddr("10.201.0.3"),
}

// packet returns a frame with an IPv4 packet; options make its header longer.
func packet(protocol byte, to string, port uint16, options int) []byte {
	b := make([]byte, offIP+20+options+20)
	binary.BigEndian.PutUint16(b[offEtherType:], etherIPv4)
	b[offIP], b[offProtocol] = byte(4<<4|(20+options)/4), protocol
	copy(b[offDestination:], netip.MustParseAddr(to).AsSlice())
	binary.BigEndian.PutUint16(b[offIP+20+options+2:], port)
	return b
}

func fragment(b []byte, field uint16) []byte {
	binary.BigEndian.PutUint16(b[offFragment:], field)
	return b
}

// etherType returns a frame of another type, which would be allowed if it were IPv4.
func etherType(kind uint16) []byte {
	b := packet(protoTCP, "192.0.2.1", 80, 0)
	binary.BigEndian.PutUint16(b[offEtherType:], kind)
	return b
}

// Which frames pass in user mode: they are given to both the filter's interpreter and the kernel.
func TestUserModeFilter(t *testing.T) {
	vm, err := bpf.NewVM(userNet.filter())
	if err != nil {
		t.Fatal(err)
	}
	guest, filtered, err := userNet.sockets()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = guest.Close(), filtered.Close() }()
	for idea, c := range map[string]struct {
		frame []byte
		pass  bool
	}{
		"ARP":                                          {etherType(etherARP), true},
		"IPv6, whose gateway is ::1":                   {etherType(0x86dd), false},
		"a tagged frame":                               {etherType(0x8100), false},
		"a frame without a type":                       {make([]byte, 10), false},
		"an IPv4 packet that is cut off":               {packet(protoTCP, "192.0.2.1", 80, 0)[:20], false},
		"outside":                                      {packet(protoTCP, "192.0.2.1", 80, 0), true},
		"outside, in fragments":                        {fragment(packet(protoUDP, "192.0.2.1", 80, 0), 0x2000), true},
		"outside, next to the prefix":                  {packet(protoUDP, "10.202.0.1", 80, 0), true},
		"the gateway":                                  {packet(protoTCP, "10.201.0.1", 8080, 0), false},
		"the gateway's port 53":                        {packet(protoUDP, "10.201.0.1", 53, 0), false},
		"the gateway, behind IP options":               {packet(protoTCP, "10.201.0.1", 8080, 8), false},
		"another address of the prefix":                {packet(protoTCP, "10.201.77.1", 8080, 0), false},
		"the prefix's broadcast":                       {packet(protoUDP, "10.201.255.255", 8080, 0), false},
		"the name server, UDP":                         {packet(protoUDP, "10.201.0.2", 53, 0), true},
		"the name server, TCP":                         {packet(protoTCP, "10.201.0.2", 53, 0), true},
		"the name server, behind IP options":           {packet(protoUDP, "10.201.0.2", 53, 12), true},
		"another port of it":                           {packet(protoTCP, "10.201.0.2", 8080, 0), false},
		"another port of it, behind IP options":        {packet(protoTCP, "10.201.0.2", 8080, 12), false},
		"a ping to it":                                 {packet(1, "10.201.0.2", 53, 0), false},
		"the first fragment to it":                     {fragment(packet(protoUDP, "10.201.0.2", 53, 0), 0x2000), false},
		"the last fragment to it":                      {fragment(packet(protoUDP, "10.201.0.2", 53, 0), 1), false},
		"not to be fragmented":                         {fragment(packet(protoUDP, "10.201.0.2", 53, 0), 0x4000), true},
		"loopback":                                     {packet(protoTCP, "127.0.0.1", 8080, 0), false},
		"all of loopback":                              {packet(protoTCP, "127.255.1.2", 8080, 0), false},
		"no address, which Linux connects to loopback": {packet(protoTCP, "0.0.0.0", 8080, 0), false},
		"a cloud's credentials":                        {packet(protoTCP, "169.254.169.254", 80, 0), false},
		"multicast":                                    {packet(protoUDP, "224.0.0.251", 5353, 0), false},
		"broadcast":                                    {packet(protoUDP, "255.255.255.255", 67, 0), false},
	} {
		t.Run(idea, func(t *testing.T) {
			n, err := vm.Run(c.frame)
			if err != nil || (n > 0) != c.pass {
				t.Errorf("interpreted: %d bytes pass, %v", n, err)
			}
			if _, err := guest.Write(c.frame); err != nil {
				t.Fatal(err)
			}
			got, _, err := unix.Recvfrom(int(filtered.Fd()), make([]byte, 1<<16), unix.MSG_DONTWAIT)
			if passed := err == nil; passed != c.pass || passed && got != len(c.frame) {
				t.Errorf("in the kernel: %d bytes pass, %v", got, err)
			}
		})
	}
	if err := unix.SetsockoptInt(int(filtered.Fd()), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != unix.EPERM {
		t.Errorf("the filter can be taken away: %v", err)
	}
}
