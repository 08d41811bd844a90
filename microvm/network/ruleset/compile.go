package ruleset

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// statement is a part of a rule in nft's language: its pattern, and the kernel's expressions for its arguments.
type statement struct {
	pattern *regexp.Regexp
	compile func(arg []string) []expr.Any
}

// statements are tried in order: a longer form comes before the shorter one that it begins with.
var statements = []statement{
	{form(`dnat to (\S+)`), dnat},
	{form(`numgen random mod (\d+) 0`), func(arg []string) []expr.Any {
		random := &expr.Numgen{Register: register, Modulus: number(arg[0]), Type: unix.NFT_NG_RANDOM}
		return []expr.Any{random, is(0, 0, 0, 0)}
	}},
	{form(`jhash ip saddr mod (\d+) seed 0x1 (\d+)`), func(arg []string) []expr.Any {
		return []expr.Any{address("s", first), &expr.Hash{
			SourceRegister: first, DestRegister: second, Length: 4, Modulus: number(arg[0]), Seed: 1,
			Type: expr.HashTypeJenkins,
		}, &expr.Cmp{Register: second, Data: binaryutil.NativeEndian.PutUint32(number(arg[1]))}}
	}},
	{form(`([io])ifname (!= )?"(.+?)(\*?)"`), interfaceName},
	{form(`ip saddr \. ip daddr @(\S+)`), func(arg []string) []expr.Any {
		return []expr.Any{address("s", first), address("d", second), &expr.Lookup{SourceRegister: first, SetName: arg[0]}}
	}},
	{form(`(ip daddr \. )?meta l4proto \. th dport vmap @(\S+)`), lookUp},
	{form(`ip ([sd])addr (!= )?([\d.]+)(?:/(\d+))?`), inPrefix},
	{form(`meta l4proto tcp`), func([]string) []expr.Any { return protocol(unix.IPPROTO_TCP) }},
	{form(`icmp type redirect`), func([]string) []expr.Any {
		const redirect = 5 // RFC 792
		return append(protocol(unix.IPPROTO_ICMP), transport(0, 1, register), is(redirect))
	}},
	{form(`ct state established,related`), func([]string) []expr.Any {
		return anyBit(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
	}},
	{form(`ct status dnat`), func([]string) []expr.Any { return anyBit(expr.CtKeySTATUS, 1<<5) }}, // IPS_DST_NAT
	{form(`fib saddr \. iif oif missing`), func([]string) []expr.Any {
		return []expr.Any{&expr.Fib{Register: register, FlagSADDR: true, FlagIIF: true, ResultOIF: true}, is(0, 0, 0, 0)}
	}},
	{form(`fib daddr type local`), func([]string) []expr.Any {
		return []expr.Any{
			&expr.Fib{Register: register, FlagDADDR: true, ResultADDRTYPE: true},
			is(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)...),
		}
	}},
	{form(`masquerade`), action(&expr.Masq{})},
	{form(`reject with tcp reset`), action(&expr.Reject{Type: unix.NFT_REJECT_TCP_RST})},
	{form(`reject`), action(&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3})}, // port unreachable
	{form(`accept`), action(&expr.Verdict{Kind: expr.VerdictAccept})},
	{form(`drop`), action(&expr.Verdict{Kind: expr.VerdictDrop})},
}

func form(pattern string) *regexp.Regexp { return regexp.MustCompile("^" + pattern + "(?: |$)") }

func action(e expr.Any) func([]string) []expr.Any {
	return func([]string) []expr.Any { return []expr.Any{e} }
}

// compile translates a rule.
func compile(rule string) ([]expr.Any, error) {
	var code []expr.Any
next:
	for rest := rule; rest != ""; {
		for _, s := range statements {
			if arg := s.pattern.FindStringSubmatch(rest); arg != nil {
				code = append(code, s.compile(arg[1:])...)
				rest = rest[len(arg[0]):]
				continue next
			}
		}
		return nil, fmt.Errorf("rule %q: no known statement at %q", rule, rest)
	}
	return code, nil
}

// The first register, and the first two of the 32-bit registers that it consists of, which hold the consecutive parts
// of a concatenated key.
const (
	register = unix.NFT_REG_1
	first    = unix.NFT_REG32_00
	second   = unix.NFT_REG32_01
)

func is(value ...byte) expr.Any { return &expr.Cmp{Register: register, Data: value} }

// compare compares the register with a value, for inequality if not is set.
func compare(not string, value []byte) expr.Any {
	op := expr.CmpOpEq
	if not != "" {
		op = expr.CmpOpNeq
	}
	return &expr.Cmp{Op: op, Register: register, Data: value}
}

// address loads the source ("s") or destination ("d") from the IPv4 header (RFC 791).
func address(of string, into uint32) expr.Any {
	return &expr.Payload{
		DestRegister: into, Base: expr.PayloadBaseNetworkHeader, Offset: map[string]uint32{"s": 12, "d": 16}[of], Len: 4,
	}
}

// transport loads bytes of the transport header. TCP, UDP and SCTP have the destination port in bytes 2 and 3.
func transport(offset, length, into uint32) expr.Any {
	return &expr.Payload{DestRegister: into, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}
}

func protocol(number byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, is(number)}
}

func interfaceName(arg []string) []expr.Any {
	key := expr.MetaKeyIIFNAME
	if arg[0] == "o" {
		key = expr.MetaKeyOIFNAME
	}
	name := []byte(arg[2])
	if arg[3] == "" { // the whole name, and not a prefix
		name = append(name, make([]byte, max(unix.IFNAMSIZ-len(name), 0))...)
	}
	return []expr.Any{&expr.Meta{Key: key, Register: register}, compare(arg[1], name)}
}

func inPrefix(arg []string) []expr.Any {
	a, err := netip.ParseAddr(arg[2])
	bits, err2 := strconv.Atoi(arg[3])
	if err != nil || err2 != nil {
		bits = 32
	}
	mask := net.CIDRMask(bits, 32)
	return []expr.Any{
		address(arg[0], register),
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		compare(arg[1], netip.PrefixFrom(a, bits).Masked().Addr().AsSlice()),
	}
}

// lookUp goes to the chain that a map holds for the packet's destination, protocol and port, or for the latter two.
func lookUp(arg []string) []expr.Any {
	var code []expr.Any
	next := uint32(first)
	if arg[0] != "" {
		code = append(code, address("d", next))
		next++
	}
	return append(code, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: next}, transport(2, 2, next+1),
		&expr.Lookup{SourceRegister: first, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: arg[1]})
}

// anyBit matches if the packet's connection has one of the bits set.
func anyBit(key expr.CtKey, bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4, Xor: make([]byte, 4),
			Mask: binaryutil.NativeEndian.PutUint32(bits),
		},
		compare("!=", make([]byte, 4)),
	}
}

func dnat(arg []string) []expr.Any {
	to, _ := netip.ParseAddrPort(arg[0])
	return []expr.Any{
		&expr.Immediate{Register: first, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: second, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: first, RegProtoMin: second},
	}
}

func number(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32) // the patterns accept digits only
	return uint32(n)
}

var protocols = map[Protocol]byte{TCP: unix.IPPROTO_TCP, UDP: unix.IPPROTO_UDP, SCTP: unix.IPPROTO_SCTP}

// datatypes are the types of the parts of keys.
var datatypes = map[string]nftables.SetDatatype{
	"ipv4_addr": nftables.TypeIPAddr, "inet_proto": nftables.TypeInetProto, "inet_service": nftables.TypeInetService,
}

func (s set) isMap() bool { return strings.HasSuffix(s.types, " : verdict") }

// datatype returns the type of the keys.
func (s set) datatype() nftables.SetDatatype {
	var parts []nftables.SetDatatype
	for part := range strings.SplitSeq(strings.TrimSuffix(s.types, " : verdict"), " . ") {
		parts = append(parts, datatypes[part])
	}
	return nftables.MustConcatSetType(parts...)
}

// encode translates a key: each part takes a multiple of four bytes.
func (e element) encode() []byte {
	var key []byte
	for part := range strings.SplitSeq(e.key, " . ") {
		if a, err := netip.ParseAddr(part); err == nil {
			key = append(key, a.AsSlice()...)
		} else if p, ok := protocols[Protocol(part)]; ok {
			key = append(key, p, 0, 0, 0)
		} else {
			key = append(binary.BigEndian.AppendUint16(key, uint16(number(part))), 0, 0)
		}
	}
	return key
}

var hookPattern = regexp.MustCompile(`^type (\w+) hook (\w+) priority (-?\d+)$`)

var hooks = map[string]*nftables.ChainHook{
	"prerouting": nftables.ChainHookPrerouting, "postrouting": nftables.ChainHookPostrouting,
	"input": nftables.ChainHookInput, "forward": nftables.ChainHookForward, "output": nftables.ChainHookOutput,
}

// in returns the chain in a table.
func (ch chain) in(table *nftables.Table) *nftables.Chain {
	c := &nftables.Chain{Name: ch.name, Table: table}
	if m := hookPattern.FindStringSubmatch(ch.hook); m != nil {
		accept := nftables.ChainPolicyAccept
		priority, _ := strconv.Atoi(m[3])
		c.Type, c.Hooknum, c.Policy = nftables.ChainType(m[1]), hooks[m[2]], &accept
		c.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(priority))
	}
	return c
}
