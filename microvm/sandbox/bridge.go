package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Bridge connects each VM only to the host, through a tap or a veth pair of the VM's own. The devices are routed and
// attached to no bridge: all of the host's packet filters apply to packets between VMs, and no VM can answer for
// another or send in its name. The bridge itself holds the host's address in the VMs' prefix; it has no ports.
//
// A Bridge needs root. Its user enables forwarding on the devices through which packets leave the host. Taps and veth
// pairs are not persistent: they vanish with the VMs' processes.
type Bridge struct {
	*addresses
	name string
}

// NewBridge creates the bridge, or adopts an existing one of this name, and gives it the prefix's first address.
func NewBridge(name string, prefix netip.Prefix) (_ *Bridge, err error) {
	a, err := newAddresses(prefix, 0)
	if err == nil && len(name) >= unix.IFNAMSIZ-4 {
		err = errors.New("a name of 11 characters or less is needed")
	}
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", name, err)
	}
	b := &Bridge{addresses: a, name: name}
	link := &netlink.Bridge{LinkAttrs: named(name)}
	if err := netlink.LinkAdd(link); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("bridge %s: make it: %w", name, err)
	}
	if err := setAddress(link, netip.PrefixFrom(a.gateway, a.prefix.Bits())); err != nil {
		return nil, fmt.Errorf("bridge %s: give it the address %s: %w", name, a.gateway, err)
	}
	if err := errors.Join(disableIPv6(name), netlink.LinkSetUp(link)); err != nil {
		return nil, fmt.Errorf("bridge %s: %w", name, err)
	}
	// A container may be allowed to make bridges but not taps.
	tap, err := b.openTap()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bridge %s: make a tap: %w", name, err), b.Delete())
	}
	return b, tap.Close()
}

// named returns the attributes of a new device.
func named(name string) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return attrs
}

// setAddress gives a device an IPv4 address and removes any others.
func setAddress(link netlink.Link, address netip.Prefix) error {
	have, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, other := range have {
		if other.IPNet.String() != address.String() {
			if err := netlink.AddrDel(link, &other); err != nil {
				return err
			}
		}
	}
	return netlink.AddrReplace(link, &netlink.Addr{IPNet: ipNet(address)})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Name returns the name of the bridge. The names of taps begin with it.
func (b *Bridge) Name() string { return b.name }

// Prefix returns the prefix of the VMs' addresses.
func (b *Bridge) Prefix() netip.Prefix { return b.prefix }

// Address returns the host's address in the prefix.
func (b *Bridge) Address() netip.Addr { return b.gateway }

// Delete removes the bridge.
func (b *Bridge) Delete() error { return DeleteBridge(b.name) }

// DeleteBridge removes the named bridge, if it exists.
func DeleteBridge(name string) error { return deleteLink(name) }

// AddRoute makes the host route packets for a prefix into the bridge. The route vanishes with the bridge.
func (b *Bridge) AddRoute(to netip.Prefix) error { return addRoute(b.name, to) }

// DeleteRoute removes the route to a prefix, if it exists.
func (b *Bridge) DeleteRoute(to netip.Prefix) error {
	link, err := netlink.LinkByName(b.name)
	if err == nil {
		err = netlink.RouteDel(routeBy(link, to))
	}
	if errors.As(err, new(netlink.LinkNotFoundError)) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete the route to %s by %s: %w", to, b.name, err)
	}
	return nil
}

func routeBy(link netlink.Link, to netip.Prefix) *netlink.Route {
	return &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to.Masked()), Scope: netlink.SCOPE_LINK}
}

// addRoute adds a route to a prefix through a device, ahead of routes through other devices.
func addRoute(device string, to netip.Prefix) error {
	link, err := netlink.LinkByName(device)
	if err == nil {
		err = netlink.RouteAddEcmp(routeBy(link, to))
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add a route to %s by %s: %w", to, device, err)
	}
	return nil
}

// Take implements Network. The guest sees only its gateway.
func (b *Bridge) Take(string) (wire.Network, error) {
	at, err := b.take()
	if err != nil {
		return at, fmt.Errorf("bridge %s: %w", b.name, err)
	}
	at.Address = addressOf(at) + "/32"
	return at, nil
}

// Attach implements Network with a tap, which the caller closes.
func (b *Bridge) Attach(at wire.Network, spec *vmm.Spec) (err error) {
	if spec.Tap, err = b.openTap(); err == nil {
		err = b.connect(spec.Tap.Name(), at)
	}
	if err != nil {
		return fmt.Errorf("make a tap for %s: %w", spec.ID, err)
	}
	return nil
}

// openTap opens a new tap.
func (b *Bridge) openTap() (*os.File, error) {
	const device = "/dev/net/tun"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("open %s: %w; load the kernel module tun (modprobe tun)", device, err)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w; in a container, allow it this device", device, err)
	}
	req, err := unix.NewIfreq(b.name[:min(len(b.name), 10)] + "-%d") // the kernel chooses the number
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), req.Name()), nil
}

// connect routes a VM's address to its device.
func (b *Bridge) connect(device string, at wire.Network) error {
	address, err := netip.ParseAddr(addressOf(at))
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	if err := errors.Join(
		setAddress(link, netip.PrefixFrom(b.gateway, 32)), enable(device, "forwarding"), enable(device, "rp_filter"),
		disableIPv6(device),
	); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	return addRoute(device, netip.PrefixFrom(address, 32))
}

// enable enables an IPv4 setting of a device.
func enable(device, setting string) error {
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", device, setting), []byte("1"), 0o644)
}

// disableIPv6 stops a device's neighbours from advertising themselves to the host as routers. The kernel may lack
// IPv6.
func disableIPv6(device string) error {
	err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", device, "disable_ipv6"), []byte("1"), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// vethName returns the name of the host's end of a veth pair: the bridge's name and the last two bytes of the
// address.
func (b *Bridge) vethName(at wire.Network) (string, error) {
	a, err := netip.ParseAddr(addressOf(at))
	if err != nil || !a.Is4() {
		return "", fmt.Errorf("%q is no IPv4 address", at.Address)
	}
	ip := a.As4()
	return fmt.Sprintf("%s-%02x%02x", b.name[:min(len(b.name), 10)], ip[2], ip[3]), nil
}

// Link implements Network.
func (b *Bridge) Link(at wire.Network, pid int) error {
	name, err := b.vethName(at)
	if err != nil {
		return err
	}
	if err := deleteLink(name); err != nil { // left over from a namespace that the kernel has not taken down yet
		return err
	}
	if err := makeVeth(name, 0, pid); err != nil {
		return err
	}
	if err := b.connect(name, at); err != nil {
		return errors.Join(fmt.Errorf("connect %s: %w", name, err), deleteLink(name))
	}
	return nil
}

// Unlink implements Network.
func (b *Bridge) Unlink(at wire.Network) error {
	name, err := b.vethName(at)
	if err != nil {
		return nil //nolint:nilerr // the VM had no address
	}
	return deleteLink(name)
}

// makeVeth creates a veth pair. The named end is in the network namespace of process owner, or in the host's if owner
// is 0; the guest's end is in the namespace of process guest.
func makeVeth(name string, owner, guest int) error {
	pair := &netlink.Veth{LinkAttrs: named(name), PeerName: guestNIC, PeerNamespace: netlink.NsPid(guest)}
	if owner != 0 {
		pair.Namespace = netlink.NsPid(owner)
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("make the pair of devices %s: %w", name, err)
	}
	return nil
}

// deleteLink removes the named device, if it exists, and with it the other end of a pair.
func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.As(err, new(netlink.LinkNotFoundError)) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the network device %s: %w", name, err)
	}
	return nil
}
