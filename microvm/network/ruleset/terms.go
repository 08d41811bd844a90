package ruleset

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// term is a condition of a rule, or what it does: as nft writes it, and as the kernel takes it.
type term struct {
	text string
	code []expr.Any
}

// rule is done if all its conditions hold.
type rule []term

func (r rule) String() string {
	var words []string
	for _, t := range r {
		words = append(words, t.text)
	}
	return strings.Join(words, " ")
}

func (r rule) code() []expr.Any {
	var all []expr.Any
	for _, t := range r {
		all = append(all, t.code...)
	}
	return all
}

// Offsets of the IPv4 header (RFC 791), and of the ports of TCP, UDP and SCTP.
const (
	sourceOffset, destinationOffset = 12, 16
	portOffset                      = 2
)

// The first register, and the first three of the small ones of which it is made: a key of several fields lies in them
// one after the other.
const (
	register   = unix.NFT_REG_1
	first      = unix.NFT_REG32_00
	second     = unix.NFT_REG32_01
	third      = unix.NFT_REG32_02
	addressLen = 4
)

func address(offset, register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: addressLen}
}

func is(value ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value} }

func isNot(value ...byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: value}
}

func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

// links compares the beginning of an interface's name.
func links(key expr.MetaKey, op expr.CmpOp, prefix string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: register},
		&expr.Cmp{Op: op, Register: register, Data: []byte(prefix)},
	}
}

func inLinks(prefix string) term {
	return term{fmt.Sprintf(`iifname "%s*"`, prefix), links(expr.MetaKeyIIFNAME, expr.CmpOpEq, prefix)}
}

func notInLinks(prefix string) term {
	return term{fmt.Sprintf(`iifname != "%s*"`, prefix), links(expr.MetaKeyIIFNAME, expr.CmpOpNeq, prefix)}
}

func outLinks(prefix string) term {
	return term{fmt.Sprintf(`oifname "%s*"`, prefix), links(expr.MetaKeyOIFNAME, expr.CmpOpEq, prefix)}
}

func notOutLinks(prefix string) term {
	return term{fmt.Sprintf(`oifname != "%s*"`, prefix), links(expr.MetaKeyOIFNAME, expr.CmpOpNeq, prefix)}
}

func in(name string) term {
	return term{
		fmt.Sprintf("iifname %q", name),
		[]expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register}, is(interfaceName(name)...)},
	}
}

func notIn(name string) term {
	return term{
		fmt.Sprintf("iifname != %q", name),
		[]expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register}, isNot(interfaceName(name)...)},
	}
}

func out(name string) term {
	return term{
		fmt.Sprintf("oifname %q", name),
		[]expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register}, is(interfaceName(name)...)},
	}
}

// within says that the address at an offset of the header is of a prefix.
func within(offset uint32, a netip.Addr, bits int) []expr.Any {
	mask := net.CIDRMask(bits, 32)
	return []expr.Any{
		address(offset, register),
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: addressLen, Mask: mask,
			Xor: make([]byte, addressLen),
		},
		is(netip.PrefixFrom(a, bits).Masked().Addr().AsSlice()...),
	}
}

func source(p netip.Prefix) term {
	return term{"ip saddr " + p.String(), within(sourceOffset, p.Addr(), p.Bits())}
}

func notSource(p netip.Prefix) term {
	code := within(sourceOffset, p.Addr(), p.Bits())
	code[len(code)-1] = isNot(p.Masked().Addr().AsSlice()...)
	return term{"ip saddr != " + p.String(), code}
}

func destination(a netip.Addr, bits int) term {
	text := a.String()
	if bits < 32 {
		text = netip.PrefixFrom(a, bits).String()
	}
	return term{"ip daddr " + text, within(destinationOffset, a, bits)}
}

func notDestination(a netip.Addr) term {
	return term{"ip daddr != " + a.String(), []expr.Any{address(destinationOffset, register), isNot(a.AsSlice()...)}}
}

// noWayBack says that this machine would send nothing to the packet's source by the interface it has come from.
func noWayBack() term {
	return term{
		"fib saddr . iif oif missing",
		[]expr.Any{&expr.Fib{Register: register, FlagSADDR: true, FlagIIF: true, ResultOIF: true}, is(0, 0, 0, 0)},
	}
}

func tcp() term {
	return term{"meta l4proto tcp", []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, is(byte(TCP))}}
}

// udpTo is to a UDP port.
func udpTo(port uint16) term {
	return term{fmt.Sprintf("udp dport %d", port), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, is(byte(UDP)),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		is(byte(port>>8), byte(port)),
	}}
}

// identifier says which network a VXLAN packet is of: 24 bits after the UDP header and four bytes of VXLAN's (RFC
// 7348).
func identifier(id uint32) term {
	return term{fmt.Sprintf("@th,96,24 %#x", id), []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 12, Len: 3},
		is(byte(id>>16), byte(id>>8), byte(id)),
	}}
}

// vxlan is a VXLAN packet of a network, to whatever port: all else in its header has to be as here.
func vxlan(id uint32) term {
	header := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, id<<8)
	return term{fmt.Sprintf("meta l4proto udp @th,64,64 0x%x", header), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, is(byte(UDP)),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 8, Len: uint32(len(header))},
		is(header...),
	}}
}

func icmpRedirect() term {
	const redirect = 5
	return term{"icmp type redirect", []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, is(unix.IPPROTO_ICMP),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1}, is(redirect),
	}}
}

func established() term {
	return term{"ct state established,related", []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4, Xor: make([]byte, 4),
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
		},
		isNot(0, 0, 0, 0),
	}}
}

// lookUp goes to the chain that a map has for the packet's destination, protocol and port.
func lookUp(name string) term {
	return term{"ip daddr . meta l4proto . th dport vmap @" + name, []expr.Any{
		address(destinationOffset, first),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: second},
		&expr.Payload{DestRegister: third, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Lookup{SourceRegister: first, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: name},
	}}
}

// lookUpPort goes to the chain that a map has for the packet's protocol and port.
func lookUpPort(name string) term {
	return term{"meta l4proto . th dport vmap @" + name, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first},
		&expr.Payload{DestRegister: second, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Lookup{SourceRegister: first, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: name},
	}}
}

// local says that the packet is for an address of this machine.
func local() term {
	return term{"fib daddr type local", []expr.Any{
		&expr.Fib{Register: register, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}}
}

func notLoopback() term {
	return term{"ip daddr != 127.0.0.0/8", []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 1},
		isNot(127),
	}}
}

// translated says that the packet was for another address.
func translated() term {
	const byDestination = 1 << 5 // IPS_DST_NAT
	return status("dnat", byDestination)
}

// masqueraded says that the packet was from another address.
func masqueraded() term {
	const bySource = 1 << 4 // IPS_SRC_NAT
	return status("snat", bySource)
}

// status says that the packet's connection has a bit of its status set.
func status(name string, bit uint32) term {
	return term{"ct status " + name, []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4, Xor: make([]byte, 4),
			Mask: binaryutil.NativeEndian.PutUint32(bit),
		},
		isNot(0, 0, 0, 0),
	}}
}

// inSet says that the packet's source and destination are in a set.
func inSet(name string) term {
	return term{"ip saddr . ip daddr @" + name, []expr.Any{
		address(sourceOffset, first), address(destinationOffset, second), &expr.Lookup{SourceRegister: first, SetName: name},
	}}
}

// oneIn holds once in n times, by chance.
func oneIn(n int) term {
	return term{fmt.Sprintf("numgen random mod %d 0", n), []expr.Any{
		&expr.Numgen{Register: register, Modulus: uint32(n), Type: unix.NFT_NG_RANDOM}, is(0, 0, 0, 0),
	}}
}

// hashOfSource holds for the i-th of n parts of all clients.
func hashOfSource(n, i int) term {
	return term{fmt.Sprintf("jhash ip saddr mod %d seed 0x1 %d", n, i), []expr.Any{
		address(sourceOffset, first),
		&expr.Hash{
			SourceRegister: first, DestRegister: second, Length: addressLen, Modulus: uint32(n), Seed: 1,
			Type: expr.HashTypeJenkins,
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: second, Data: binaryutil.NativeEndian.PutUint32(uint32(i))},
	}}
}

func dnat(to netip.AddrPort) term {
	ip := to.Addr().As4()
	return term{"dnat to " + to.String(), []expr.Any{
		&expr.Immediate{Register: first, Data: ip[:]},
		&expr.Immediate{Register: second, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: first, RegProtoMin: second},
	}}
}

func masquerade() term { return term{"masquerade", []expr.Any{&expr.Masq{}}} }

func reset() term {
	return term{"reject with tcp reset", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}}
}

// reject tells the sender that nobody listens.
func reject() term {
	const portUnreachable = 3
	return term{"reject", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable}}}
}

// Verdicts.
const (
	accept = expr.VerdictAccept
	drop   = expr.VerdictDrop
)

func verdict(v expr.VerdictKind) term {
	text := "accept"
	if v == drop {
		text = "drop"
	}
	return term{text, []expr.Any{&expr.Verdict{Kind: v}}}
}
