package sandbox

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Network gives VMs their addresses and connects them. It is safe for concurrent use.
type Network interface {
	// Take takes a free address; id is the VM's ID, for messages.
	Take(id string) (wire.Network, error)
	// Keep marks the address of an adopted VM as taken.
	Keep(wire.Network)
	// Release frees an address. Releasing the zero value has no effect.
	Release(wire.Network)
	// Attach sets the network of the spec of a VM that runs its own kernel. An address can be attached again once its
	// VM has ended.
	Attach(at wire.Network, spec *vmm.Spec) error
	// Link creates the device eth0 in the network namespace of a process, for a pod without a virtual machine. The
	// device vanishes with the namespace.
	Link(at wire.Network, pid int) error
	// Unlink removes the device that Link created, if it exists.
	Unlink(at wire.Network) error
}

const guestNIC = "eth0"

// addresses allocates the addresses of a prefix.
type addresses struct {
	prefix  netip.Prefix
	gateway netip.Addr
	first   netip.Addr // first address for VMs

	mu    sync.Mutex
	taken map[netip.Addr]bool
	last  netip.Addr // the address taken most recently
}

// newAddresses checks a prefix. Its first address is the gateway's, and the next reserved ones are not for VMs.
func newAddresses(prefix netip.Prefix, reserved int) (*addresses, error) {
	prefix = prefix.Masked()
	if !prefix.Addr().Is4() || prefix.Bits() > 29 {
		return nil, fmt.Errorf("%s: an IPv4 prefix of 29 bits or less is needed", prefix)
	}
	a := &addresses{prefix: prefix, gateway: prefix.Addr().Next(), taken: map[netip.Addr]bool{}}
	for a.last = a.gateway; reserved > 0; reserved-- {
		a.last = a.last.Next()
	}
	a.first = a.last.Next()
	return a, nil
}

// take takes the next free address in turn, so that a released address is not reused at once.
func (a *addresses) take() (wire.Network, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.last
	for range 1 << (32 - a.prefix.Bits()) {
		if next = next.Next(); !a.prefix.Contains(next.Next()) { // the last one is the broadcast address
			next = a.first
		}
		if a.taken[next] {
			continue
		}
		a.taken[next], a.last = true, next
		ip := next.As4()
		return wire.Network{
			Address: netip.PrefixFrom(next, a.prefix.Bits()).String(), Gateway: a.gateway.String(),
			// as unique as the address
			MAC: fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3]),
		}, nil
	}
	return wire.Network{}, fmt.Errorf("all addresses of %s are taken", a.prefix)
}

// Keep implements Network.
func (a *addresses) Keep(n wire.Network) {
	if ip, err := netip.ParseAddr(addressOf(n)); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.taken[ip] = true
	}
}

// Release implements Network.
func (a *addresses) Release(n wire.Network) {
	if ip, err := netip.ParseAddr(addressOf(n)); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.taken, ip)
	}
}

// addressOf returns an address without its prefix length.
func addressOf(n wire.Network) string {
	address, _, _ := strings.Cut(n.Address, "/")
	return address
}

// UserMode is QEMU's user-mode network stack, which needs no privileges. Each pod is alone in its network, with an
// address that no other pod has. It reaches other networks through the host (TCP and UDP, no ICMP), but not the
// host's loopback, and can be reached only by port-forward; see vmm.UserNet.
type UserMode struct {
	*addresses
	dns netip.Addr
}

// NewUserMode returns a network with the addresses of a prefix. The first address is the gateway's; the second is
// that of a name server that forwards to the host's.
func NewUserMode(prefix netip.Prefix) (*UserMode, error) {
	a, err := newAddresses(prefix, 1)
	if err != nil {
		return nil, fmt.Errorf("user-mode network: %w", err)
	}
	return &UserMode{addresses: a, dns: a.gateway.Next()}, nil
}

// defaultUserMode uses QEMU's default prefix.
func defaultUserMode() *UserMode {
	u, _ := NewUserMode(netip.MustParsePrefix("10.0.2.0/24")) // the prefix is valid
	return u
}

// Take implements Network.
func (u *UserMode) Take(string) (wire.Network, error) {
	at, err := u.take()
	if err != nil {
		return at, fmt.Errorf("user-mode network: %w", err)
	}
	at.Nameservers = []string{u.dns.String()}
	return at, nil
}

// Attach implements Network.
func (u *UserMode) Attach(_ wire.Network, spec *vmm.Spec) error {
	spec.UserNet = &vmm.UserNet{Prefix: u.prefix, Gateway: u.gateway, DNS: u.dns, First: u.first}
	return nil
}

// Link implements Network. Namespaces have no user-mode network stack: the pod has its address but reaches nothing.
func (u *UserMode) Link(_ wire.Network, pid int) error { return makeVeth("nowhere", pid, pid) }

// Unlink implements Network.
func (u *UserMode) Unlink(wire.Network) error { return nil }
