// Package overlay carries packets between the pods of several machines: a VXLAN interface (RFC 7348) without learning
// and without broadcasts, with an entry for each peer, programmed over netlink. It needs root.
//
// All but where a peer is follows from the addresses of its pods: their first is the peer's own among them and the
// next hop of the route; it makes the peer's hardware address and network identifier. Two machines need nothing of
// each other but those addresses and where the other one is, and packets that were sent to a machine whose addresses
// are others by now are not taken by it.
package overlay

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Overhead are the bytes that each packet is longer on its way: Ethernet, VXLAN, UDP and IPv4 headers.
const Overhead = 14 + 8 + 8 + 20

// Config of the interface.
type Config struct {
	Name string
	// Pods are this machine's; their first address is its own.
	Pods netip.Prefix
	// Local is the address that packets to peers are sent from; not valid: the kernel chooses.
	Local netip.Addr
	Port  uint16 // UDP, where packets of peers arrive
	MTU   int
}

// Peer is another machine with pods.
type Peer struct {
	Pods netip.Prefix
	At   netip.AddrPort
}

// Tunnel is the interface.
type Tunnel struct {
	c     Config
	index uint32
}

// Open makes the interface anew: what was sent to peers before is lost for a moment. See Find.
func Open(c Config) (*Tunnel, error) {
	if err := Delete(c.Name); err != nil {
		return nil, err
	}
	err := do(func(k *netlink.Conn) error { return c.create(k) })
	if err != nil {
		return nil, c.explain(err)
	}
	t, err := Find(c)
	if err != nil {
		return nil, errors.Join(err, Delete(c.Name))
	}
	return t, nil
}

// Find takes an interface up that was made with the same Config, also one that was left half-made, or that somebody
// has set down.
func Find(c Config) (*Tunnel, error) {
	i, err := net.InterfaceByName(c.Name)
	if err != nil {
		return nil, fmt.Errorf("tunnel %s: %w", c.Name, err)
	}
	t := &Tunnel{c: c, index: uint32(i.Index)}
	if err := t.prepare(); err != nil {
		return nil, c.explain(err)
	}
	return t, nil
}

// explain says what can be done about an error of the kernel's.
func (c Config) explain(err error) error {
	why := ""
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		why = ": this machine's kernel has no VXLAN; install and load its module (modprobe vxlan)"
	case errors.Is(err, unix.EADDRINUSE):
		why = fmt.Sprintf(": UDP port %d is another program's; choose another one with --overlay-port", c.Port)
	case errors.Is(err, unix.EEXIST):
		why = fmt.Sprintf(": another VXLAN interface has UDP port %d and identifier %d (ip -d link show type vxlan); remove it, or choose another port with --overlay-port", c.Port, Identifier(c.Pods))
	}
	return fmt.Errorf("tunnel %s: %w%s", c.Name, err, why)
}

// Delete removes an interface with all routes by it; that there is none is no error.
func Delete(name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	err = do(func(k *netlink.Conn) error {
		return execute(k, unix.RTM_DELLINK, 0, link(uint32(i.Index), 0, 0))
	})
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove tunnel %s: %w", name, err)
	}
	return nil
}

// prepare sets up what there is: as the pods' taps are (host.Routed).
func (t *Tunnel) prepare() error {
	for setting, value := range map[string]string{
		"ipv4/conf/%s/forwarding": "1", "ipv4/conf/%s/rp_filter": "1",
		"ipv6/conf/%s/disable_ipv6": "1",
	} {
		err := os.WriteFile(filepath.Join("/proc/sys/net", fmt.Sprintf(setting, t.c.Name)), []byte(value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel may have no IPv6
			return err
		}
	}
	return do(func(k *netlink.Conn) error {
		if err := execute(k, unix.RTM_NEWADDR, netlink.Create|netlink.Replace, t.ownAddress()); err != nil {
			return fmt.Errorf("give it the address %s: %w", gateway(t.c.Pods), err)
		}
		return execute(k, unix.RTM_NEWLINK, 0, link(t.index, unix.IFF_UP, unix.IFF_UP))
	})
}

// Sync makes the ways to peers what they should be. Those that stay are not touched.
func (t *Tunnel) Sync(peers []Peer) error {
	err := do(func(k *netlink.Conn) error {
		have, err := t.routes(k)
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		var failed []error
		for _, p := range have {
			if !slices.ContainsFunc(peers, func(w Peer) bool { return w.Pods == p }) {
				failed = append(failed, t.forget(k, p))
			}
		}
		for _, p := range peers {
			if err := t.add(k, p); err != nil {
				failed = append(failed, fmt.Errorf("the way to the pods %s at %s: %w", p.Pods, p.At, err))
			}
		}
		return errors.Join(failed...)
	})
	if err != nil {
		return fmt.Errorf("tunnel %s: %w", t.c.Name, err)
	}
	return nil
}

// add makes the way to a peer: first where its hardware address is, then the route.
func (t *Tunnel) add(k *netlink.Conn, p Peer) error {
	const put = netlink.Create | netlink.Replace
	return cmp.Or(
		execute(k, unix.RTM_NEWNEIGH, put, t.forwardingEntry(p)),
		execute(k, unix.RTM_NEWNEIGH, put, t.neighbour(p.Pods)),
		execute(k, unix.RTM_NEWROUTE, put, t.route(p.Pods)))
}

// forget takes the way to a peer back.
func (t *Tunnel) forget(k *netlink.Conn, pods netip.Prefix) error {
	var failed []error
	for _, e := range []struct {
		kind netlink.HeaderType
		body []byte
	}{
		{unix.RTM_DELROUTE, t.route(pods)},
		{unix.RTM_DELNEIGH, t.neighbour(pods)},
		{unix.RTM_DELNEIGH, t.forwardingEntry(Peer{Pods: pods})},
	} {
		if err := execute(k, e.kind, 0, e.body); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			failed = append(failed, fmt.Errorf("remove the way to the pods %s: %w", pods, err))
		}
	}
	return errors.Join(failed...)
}

// gateway is the address of the machine of pods among them.
func gateway(pods netip.Prefix) netip.Addr { return pods.Masked().Addr().Next() }

// hardware is the hardware address of the machine of pods, which nobody else has in the tunnel.
func hardware(pods netip.Prefix) []byte {
	a := gateway(pods).As4()
	return append([]byte{0x02, 0x6e}, a[:]...)
}

// Identifier is the network identifier (VNI, 24 bits) of what is for the machine of pods. Prefixes of 28 bits or less
// within 10.0.0.0/8 never meet.
func Identifier(pods netip.Prefix) uint32 {
	a := pods.Masked().Addr().As4()
	return binary.BigEndian.Uint32(a[:]) >> 4 & 0xffffff
}
