package sandbox

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
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

// makeVeth makes a pair.
func makeVeth(one, other vethEnd) error {
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: other.name}
	pair.Name = one.name
	if one.pid != 0 {
		pair.Namespace = netlink.NsPid(one.pid)
	}
	if other.pid != 0 {
		pair.PeerNamespace = netlink.NsPid(other.pid)
	}
	return netlink.LinkAdd(pair)
}

// deleteLink removes a network device, if there is one of the name; the other end of a pair goes with it.
func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the network device %s: %w", name, err)
	}
	return nil
}
