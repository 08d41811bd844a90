package sandbox

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Linker is a Network that also connects network namespaces, by a pair of virtual Ethernet devices: for pods without
// a virtual machine. What a guest sees, and what the host does with the other end, is as with a tap.
type Linker interface {
	// Link gives the network namespace of a process its device eth0, which belongs to a place that was taken. The pair
	// goes with the namespace.
	Link(at wire.Network, pid int) error
	// Unlink takes the pair of a place away at once. That there is none is no error.
	Unlink(at wire.Network) error
}

const guestNIC = "eth0"

// vethName is this machine's end of a place's pair: the bridge's name and the end of the address.
func (b *Bridge) vethName(at wire.Network) (string, error) {
	a, err := netip.ParseAddr(addressOf(at))
	if err != nil || !a.Is4() {
		return "", fmt.Errorf("the place has no IPv4 address: %q", at.Address)
	}
	ip := a.As4()
	return fmt.Sprintf("%s-%02x%02x", b.name[:min(len(b.name), 10)], ip[2], ip[3]), nil
}

// Link implements Linker.
func (b *Bridge) Link(at wire.Network, pid int) error { return b.link(at, pid, b.connect) }

// Unlink implements Linker.
func (b *Bridge) Unlink(at wire.Network) error {
	name, err := b.vethName(at)
	if err != nil {
		return nil // a place that was never taken
	}
	return deleteLink(name)
}

// link makes the pair and has this machine's end connected.
func (b *Bridge) link(at wire.Network, pid int, connect func(socket int, name string) error) error {
	name, err := b.vethName(at)
	if err != nil {
		return err
	}
	if err := deleteLink(name); err != nil { // of a namespace that the kernel has not taken down yet
		return err
	}
	if err := makeVeth(vethEnd{name: name}, vethEnd{guestNIC, pid}); err != nil {
		return fmt.Errorf("make the pair of devices %s: %w", name, err)
	}
	if err := withSocket(func(socket int) error { return connect(socket, name) }); err != nil {
		return errors.Join(fmt.Errorf("connect %s: %w", name, err), deleteLink(name))
	}
	return nil
}

// Link implements Linker: the other end is where the machine's own is, alone with itself.
func (r Routed) Link(at wire.Network, pid int) error {
	return r.link(at, pid, func(socket int, name string) error { return r.connect(socket, name, at) })
}

// Link implements Linker: without privileges for more, a pod in a namespace has its address and sees itself alone.
func (u *UserMode) Link(_ wire.Network, pid int) error {
	if err := makeVeth(vethEnd{"nowhere", pid}, vethEnd{guestNIC, pid}); err != nil {
		return fmt.Errorf("make a pair of devices: %w", err)
	}
	return nil
}

// Unlink implements Linker.
func (u *UserMode) Unlink(wire.Network) error { return nil }

// vethEnd is one end of a pair, in the network namespace of a process; 0: in this process's own.
type vethEnd struct {
	name string
	pid  int
}

const vethInfoPeer = 1 // VETH_INFO_PEER of linux/veth.h

// makeVeth makes a pair.
func makeVeth(one, other vethEnd) error {
	end := func(ae *netlink.AttributeEncoder, e vethEnd) {
		ae.String(unix.IFLA_IFNAME, e.name)
		if e.pid != 0 {
			ae.Uint32(unix.IFLA_NET_NS_PID, uint32(e.pid))
		}
	}
	ae := netlink.NewAttributeEncoder()
	end(ae, one)
	ae.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "veth")
		info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			data.Do(vethInfoPeer, func() ([]byte, error) {
				peer := netlink.NewAttributeEncoder()
				end(peer, other)
				attributes, err := peer.Encode()
				return append(make([]byte, unix.SizeofIfInfomsg), attributes...), err
			})
			return nil
		})
		return nil
	})
	return askRoute(unix.RTM_NEWLINK, netlink.Create|netlink.Excl, ae)
}

// deleteLink removes a network device, if there is one of the name; the other end of a pair goes with it.
func deleteLink(name string) error {
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	if err := askRoute(unix.RTM_DELLINK, 0, ae); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the network device %s: %w", name, err)
	}
	return nil
}

// askRoute asks the kernel to do something with a network device (rtnetlink(7)).
func askRoute(kind netlink.HeaderType, flags netlink.HeaderFlags, ae *netlink.AttributeEncoder) error {
	attributes, err := ae.Encode()
	if err != nil {
		return err
	}
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	info := make([]byte, unix.SizeofIfInfomsg)
	_, err = c.Execute(netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | flags},
		Data:   append(info, attributes...),
	})
	return err
}
