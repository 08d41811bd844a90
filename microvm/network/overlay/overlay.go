// Package overlay carries packets between the pods of microVM hosts on several instances: a VXLAN interface (RFC 7348)
// without learning and broadcasts, with a forwarding entry for each peer, set up over netlink. It needs root.
//
// Everything but a peer's location follows from the addresses of its pods: the first of them is the peer's own and the
// next hop of the route, and gives the peer's hardware address and network identifier. Two hosts have to know nothing
// of each other but these addresses and where the other one is. A host whose addresses have changed does not accept
// packets for the former ones.
package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Overhead is the number of bytes that the overlay adds to each packet: Ethernet, VXLAN, UDP and IPv4 headers.
const Overhead = 14 + 8 + 8 + 20

// Config of the interface.
type Config struct {
	Name string
	// Pods are this host's; their first address is the host's own.
	Pods netip.Prefix
	// Local is the source address of packets to peers; if it is not valid, the kernel chooses.
	Local netip.Addr
	Port  uint16 // UDP port on which peers' packets arrive
	MTU   int
}

// Peer is another microVM host.
type Peer struct {
	// Pods are the addresses of its microVMs.
	Pods netip.Prefix
	// At is where it receives packets for them.
	At netip.AddrPort
}

// Tunnel is the interface.
type Tunnel struct {
	c    Config
	link netlink.Link
}

// Open creates the interface, in place of one that exists: packets to peers are lost until the next Sync. See Find.
func Open(c Config) (*Tunnel, error) {
	if err := Delete(c.Name); err != nil {
		return nil, err
	}
	if err := c.create(); err != nil {
		return nil, c.explain(err)
	}
	t, err := Find(c)
	if err != nil {
		return nil, errors.Join(err, Delete(c.Name))
	}
	return t, nil
}

// create creates the interface, which is down.
func (c Config) create() error {
	link := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: int(Identifier(c.Pods)), Port: int(c.Port)}
	link.Name, link.HardwareAddr, link.MTU = c.Name, hardware(c.Pods), c.MTU
	if c.Local.Is4() {
		link.SrcAddr = c.Local.AsSlice()
	}
	return netlink.LinkAdd(link)
}

// Find takes over an interface that was created with the same Config, even if it was left half-configured or somebody
// has set it down.
func Find(c Config) (*Tunnel, error) {
	link, err := netlink.LinkByName(c.Name)
	if err != nil {
		return nil, fmt.Errorf("tunnel %s: %w", c.Name, err)
	}
	t := &Tunnel{c, link}
	if err := t.configure(); err != nil {
		return nil, c.explain(err)
	}
	return t, nil
}

// explain adds to an error of the kernel what can be done about it.
func (c Config) explain(err error) error {
	advice := ""
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		advice = ": this machine's kernel has no VXLAN; install and load its module (modprobe vxlan)"
	case errors.Is(err, unix.EADDRINUSE):
		advice = fmt.Sprintf(": UDP port %d is another program's; choose another one with --overlay-port", c.Port)
	case errors.Is(err, unix.EEXIST):
		advice = fmt.Sprintf(": another VXLAN interface has UDP port %d and identifier %d (ip -d link show type vxlan); "+
			"remove it, or choose another port with --overlay-port", c.Port, Identifier(c.Pods))
	}
	return fmt.Errorf("tunnel %s: %w%s", c.Name, err, advice)
}

// Delete removes an interface and all routes through it. It is no error if there is none.
func Delete(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove tunnel %s: %w", name, err)
	}
	return nil
}

// configure configures the interface like the pods' taps (sandbox.Bridge) and sets it up.
func (t *Tunnel) configure() error {
	for setting, value := range map[string]string{
		"ipv4/conf/%s/forwarding": "1", "ipv4/conf/%s/rp_filter": "1", "ipv6/conf/%s/disable_ipv6": "1",
	} {
		err := os.WriteFile(filepath.Join("/proc/sys/net", fmt.Sprintf(setting, t.c.Name)), []byte(value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the kernel may lack IPv6
			return err
		}
	}
	own := netip.PrefixFrom(gateway(t.c.Pods), 32)
	if err := netlink.AddrReplace(t.link, &netlink.Addr{IPNet: ipNet(own)}); err != nil {
		return fmt.Errorf("give it the address %s: %w", own.Addr(), err)
	}
	return netlink.LinkSetUp(t.link)
}

// Sync makes the peers' routes and forwarding entries those of peers. It does not disturb those that stay.
func (t *Tunnel) Sync(peers []Peer) error {
	routes, err := netlink.RouteList(t.link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("tunnel %s: list routes: %w", t.c.Name, err)
	}
	var failed []error
	for _, r := range routes {
		pods, err := netip.ParsePrefix(r.Dst.String())
		if err == nil && !slices.ContainsFunc(peers, func(p Peer) bool { return p.Pods == pods }) {
			failed = append(failed, t.remove(pods))
		}
	}
	for _, p := range peers {
		if err := t.add(p); err != nil {
			failed = append(failed, fmt.Errorf("the way to the pods %s at %s: %w", p.Pods, p.At, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("tunnel %s: %w", t.c.Name, err)
	}
	return nil
}

// add adds or replaces a peer: first where its hardware address is, last the route.
func (t *Tunnel) add(p Peer) error {
	if err := t.forwardingEntry(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, p); err != nil {
		return err
	}
	if err := netlink.NeighSet(t.neighbor(p.Pods)); err != nil {
		return err
	}
	return netlink.RouteReplace(t.route(p.Pods))
}

// remove removes a peer.
func (t *Tunnel) remove(pods netip.Prefix) error {
	var failed []error
	for _, err := range []error{
		netlink.RouteDel(t.route(pods)),
		netlink.NeighDel(t.neighbor(pods)),
		t.forwardingEntry(unix.RTM_DELNEIGH, 0, Peer{Pods: pods}),
	} {
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			failed = append(failed, fmt.Errorf("remove the way to the pods %s: %w", pods, err))
		}
	}
	return errors.Join(failed...)
}

// route leads to pods by their host. Packets from this host itself have its address in the tunnel.
func (t *Tunnel) route(pods netip.Prefix) *netlink.Route {
	return &netlink.Route{
		LinkIndex: t.link.Attrs().Index, Dst: ipNet(pods.Masked()), Gw: gateway(pods).AsSlice(),
		Src: gateway(t.c.Pods).AsSlice(), Protocol: unix.RTPROT_STATIC, Flags: int(netlink.FLAG_ONLINK),
	}
}

// neighbor maps the address of the host of pods to its hardware address.
func (t *Tunnel) neighbor(pods netip.Prefix) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: t.link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: gateway(pods).AsSlice(),
		HardwareAddr: hardware(pods),
	}
}

// forwardingEntry adds or removes where the hardware address of a peer is; netlink.Neigh lacks the port. An entry is
// removed by the hardware address alone.
func (t *Tunnel) forwardingEntry(kind, flags int, p Peer) error {
	r := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	r.AddData(&netlink.Ndmsg{
		Family: unix.AF_BRIDGE, Index: uint32(t.link.Attrs().Index), State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
	})
	r.AddData(nl.NewRtAttr(netlink.NDA_LLADDR, hardware(p.Pods)))
	if p.At.IsValid() {
		r.AddData(nl.NewRtAttr(netlink.NDA_DST, p.At.Addr().AsSlice()))
		r.AddData(nl.NewRtAttr(netlink.NDA_PORT, binary.BigEndian.AppendUint16(nil, p.At.Port())))
		r.AddData(nl.NewRtAttr(netlink.NDA_VNI, nl.Uint32Attr(Identifier(p.Pods))))
	}
	_, err := r.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// gateway returns the address of the host of pods among them.
func gateway(pods netip.Prefix) netip.Addr { return pods.Masked().Addr().Next() }

// hardware returns the hardware address of the host of pods, unique in the tunnel.
func hardware(pods netip.Prefix) net.HardwareAddr {
	a := gateway(pods).As4()
	return append([]byte{0x02, 0x6e}, a[:]...)
}

// Identifier returns the network identifier (VNI, 24 bits) of packets to the host of pods. Prefixes of at most 28 bits
// within 10.0.0.0/8 have distinct identifiers.
func Identifier(pods netip.Prefix) uint32 {
	a := pods.Masked().Addr().As4()
	return binary.BigEndian.Uint32(a[:]) >> 4 & 0xffffff
}
