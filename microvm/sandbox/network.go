package sandbox

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Network gives VMs their addresses, and connects them. It is safe for concurrent use.
type Network interface {
	// Take takes a free address; id is the VM's, for messages.
	Take(id string) (wire.Network, error)
	// Keep marks the address of an adopted VM as taken.
	Keep(wire.Network)
	// Release gives an address back. Releasing the zero value has no effect.
	Release(wire.Network)
	// Attach sets the network of a VM's spec, for a guest with a kernel of its own. An address can be attached again when
	// its VM has ended.
	Attach(at wire.Network, spec *vmm.Spec) error
	// Link gives the network namespace of a process its device eth0, for a pod without a virtual machine. The device
	// vanishes with the namespace.
	Link(at wire.Network, pid int) error
	// Unlink removes the device that Link has made, if there is one.
	Unlink(at wire.Network) error
}

const guestNIC = "eth0"

// addresses hands out the addresses of a prefix.
type addresses struct {
	prefix  netip.Prefix
	gateway netip.Addr
	first   netip.Addr // that a VM may have

	mu    sync.Mutex
	taken map[netip.Addr]bool
	last  netip.Addr // the last that was taken
}

// newAddresses checks a prefix, whose first address is the gateway's and in which so many more are reserved.
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

// take takes the next free address, so that an address that was just released rests for a while.
func (a *addresses) take() (wire.Network, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.last
	for range 1 << (32 - a.prefix.Bits()) {
		if next = next.Next(); !a.prefix.Contains(next.Next()) { // the last one is for broadcasts
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

// UserMode is QEMU's own network stack, which needs no privileges. Each pod is alone in a network, with an address that
// no other pod has. It reaches out through the host (TCP and UDP, no ICMP), but not to the host's loopback, and is
// reached by port-forward only; see vmm.UserNet.
type UserMode struct {
	*addresses
	dns netip.Addr
}

// NewUserMode returns a network with the addresses of a prefix. The first is the gateway's, the second that of a name
// server that asks the host's.
func NewUserMode(prefix netip.Prefix) (*UserMode, error) {
	a, err := newAddresses(prefix, 1)
	if err != nil {
		return nil, fmt.Errorf("user-mode network: %w", err)
	}
	return &UserMode{addresses: a, dns: a.gateway.Next()}, nil
}

// defaultUserMode has QEMU's own default prefix.
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

// Link implements Network. Without a network stack for namespaces, the pod has its address and reaches nothing.
func (u *UserMode) Link(_ wire.Network, pid int) error { return makeVeth("nowhere", pid, pid) }

// Unlink implements Network.
func (u *UserMode) Unlink(wire.Network) error { return nil }
