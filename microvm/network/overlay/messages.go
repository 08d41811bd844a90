package overlay

import (
	"encoding/binary"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// do connects to the kernel for as long as f runs.
func do(f func(*netlink.Conn) error) error {
	k, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	return f(k)
}

func execute(k *netlink.Conn, kind netlink.HeaderType, flags netlink.HeaderFlags, body []byte) error {
	_, err := k.Execute(netlink.Message{Header: netlink.Header{
		Type:  kind,
		Flags: netlink.Request | netlink.Acknowledge | flags,
	}, Data: body})
	return err
}

// attributes encodes what f sets; the values are of lengths that cannot be wrong.
func attributes(f func(*netlink.AttributeEncoder)) []byte {
	e := netlink.NewAttributeEncoder()
	f(e)
	b, err := e.Encode()
	if err != nil {
		panic("attributes of a netlink message: " + err.Error()) // one is longer than 64 KiB
	}
	return b
}

// link is a struct ifinfomsg.
func link(index, flags, change uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], index)
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], change)
	return b
}

// create makes the interface, not up yet.
func (c Config) create(k *netlink.Conn) error {
	return execute(k, unix.RTM_NEWLINK, netlink.Create|netlink.Excl,
		append(link(0, 0, 0), attributes(func(e *netlink.AttributeEncoder) {
			e.String(unix.IFLA_IFNAME, c.Name)
			e.Bytes(unix.IFLA_ADDRESS, hardware(c.Pods))
			e.Uint32(unix.IFLA_MTU, uint32(c.MTU))
			e.Nested(unix.IFLA_LINKINFO, func(e *netlink.AttributeEncoder) error {
				e.String(unix.IFLA_INFO_KIND, "vxlan")
				e.Nested(unix.IFLA_INFO_DATA, func(e *netlink.AttributeEncoder) error {
					e.Uint32(unix.IFLA_VXLAN_ID, Identifier(c.Pods))
					e.Uint8(unix.IFLA_VXLAN_LEARNING, 0)
					e.Bytes(unix.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, c.Port))
					if c.Local.Is4() {
						e.Bytes(unix.IFLA_VXLAN_LOCAL, c.Local.AsSlice())
					}
					return nil
				})
				return nil
			})
		})...))
}

// ownAddress is a struct ifaddrmsg: this machine's address among its pods, of 32 bits.
func (t *Tunnel) ownAddress() []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1] = unix.AF_INET, 32
	binary.NativeEndian.PutUint32(b[4:], t.index)
	return append(b, attributes(func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.IFA_LOCAL, gateway(t.c.Pods).AsSlice())
		e.Bytes(unix.IFA_ADDRESS, gateway(t.c.Pods).AsSlice())
	})...)
}

// neighbourMessage is a struct ndmsg.
func (t *Tunnel) neighbourMessage(family, flags byte) []byte {
	b := make([]byte, unix.SizeofNdMsg)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], t.index)
	binary.NativeEndian.PutUint16(b[8:], unix.NUD_PERMANENT)
	b[10] = flags
	return b
}

// neighbour says which hardware address the machine of pods has.
func (t *Tunnel) neighbour(pods netip.Prefix) []byte {
	return append(t.neighbourMessage(unix.AF_INET, 0), attributes(func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.NDA_DST, gateway(pods).AsSlice())
		e.Bytes(unix.NDA_LLADDR, hardware(pods))
	})...)
}

// forwardingEntry says where a hardware address is. It is found by that alone when it is to be removed.
func (t *Tunnel) forwardingEntry(p Peer) []byte {
	return append(t.neighbourMessage(unix.AF_BRIDGE, unix.NTF_SELF), attributes(func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.NDA_LLADDR, hardware(p.Pods))
		if p.At.IsValid() {
			e.Bytes(unix.NDA_DST, p.At.Addr().AsSlice())
			e.Bytes(unix.NDA_PORT, binary.BigEndian.AppendUint16(nil, p.At.Port()))
			e.Uint32(unix.NDA_VNI, Identifier(p.Pods))
		}
	})...)
}

// route is a struct rtmsg: packets to pods go to their machine, which has this one's address in the tunnel as their
// sender if it is the sender.
func (t *Tunnel) route(pods netip.Prefix) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[1] = unix.AF_INET, byte(pods.Bits())
	b[4], b[5], b[6], b[7] = unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST
	binary.NativeEndian.PutUint32(b[8:], unix.RTNH_F_ONLINK)
	return append(b, attributes(func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.RTA_DST, pods.Masked().Addr().AsSlice())
		e.Bytes(unix.RTA_GATEWAY, gateway(pods).AsSlice())
		e.Bytes(unix.RTA_PREFSRC, gateway(t.c.Pods).AsSlice())
		e.Uint32(unix.RTA_OIF, t.index)
	})...)
}

// routes are the prefixes that are routed by the interface.
func (t *Tunnel) routes(k *netlink.Conn) ([]netip.Prefix, error) {
	query := make([]byte, unix.SizeofRtMsg)
	query[0] = unix.AF_INET
	all, err := k.Execute(netlink.Message{Header: netlink.Header{
		Type:  unix.RTM_GETROUTE,
		Flags: netlink.Request | netlink.Dump,
	}, Data: query})
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, m := range all {
		if len(m.Data) < unix.SizeofRtMsg || m.Data[4] != unix.RT_TABLE_MAIN {
			continue
		}
		a, err := netlink.NewAttributeDecoder(m.Data[unix.SizeofRtMsg:])
		if err != nil {
			return nil, err
		}
		var to netip.Addr
		var by uint32
		for a.Next() {
			switch a.Type() {
			case unix.RTA_DST:
				to, _ = netip.AddrFromSlice(a.Bytes())
			case unix.RTA_OIF:
				by = a.Uint32()
			}
		}
		if a.Err() == nil && by == t.index && to.Is4() {
			out = append(out, netip.PrefixFrom(to, int(m.Data[1])))
		}
	}
	return out, nil
}
