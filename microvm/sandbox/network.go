package sandbox

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Attachment is a machine's connection to a network.
type Attachment struct {
	Tap     *os.File // nil: user mode
	UserNet *vmm.UserNet
}

// Network gives machines their places, and connects them.
type Network interface {
	// Take takes a free place; id is the machine's, for messages.
	Take(id string) (wire.Network, error)
	// Attach connects a machine at a place that was taken. The same place may be attached again when its machine is gone.
	Attach(id string, at wire.Network) (Attachment, error)
	// Keep marks the place of a machine that was found again as taken.
	Keep(wire.Network)
	// Release gives a place back. Releasing none is no error.
	Release(wire.Network)
}

// UserMode is QEMU's own network stack: it needs no privileges. Each pod is alone in a network, has an address that
// no other has, reaches out through the host (TCP and UDP, no ICMP), and cannot be reached but by port-forward. It
// does not reach the host's loopback; see vmm.UserNet.
type UserMode struct {
	places
	dns netip.Addr
}

// NewUserMode gives out the addresses of a prefix but for its first two, which are the gateway and a name server that
// asks the host's.
func NewUserMode(prefix netip.Prefix) (*UserMode, error) {
	prefix = prefix.Masked()
	if !prefix.Addr().Is4() || prefix.Bits() > 29 {
		return nil, fmt.Errorf("user-mode network %s: an IPv4 prefix of 29 bits or less is needed", prefix)
	}
	gateway := prefix.Addr().Next()
	dns := gateway.Next()
	return &UserMode{places: newPlaces(prefix, gateway, dns.Next()), dns: dns}, nil
}

// defaultUserMode is QEMU's own default prefix.
func defaultUserMode() *UserMode {
	u, _ := NewUserMode(netip.MustParsePrefix("10.0.2.0/24")) // a good prefix
	return u
}

// Take takes the next free address.
func (u *UserMode) Take(string) (wire.Network, error) {
	at, err := u.take()
	if err != nil {
		return wire.Network{}, fmt.Errorf("user-mode network: %w", err)
	}
	at.Nameservers = []string{u.dns.String()}
	return at, nil
}

// Attach tells QEMU of the network.
func (u *UserMode) Attach(string, wire.Network) (Attachment, error) {
	return Attachment{UserNet: &vmm.UserNet{Prefix: u.prefix, Gateway: u.gateway, DNS: u.dns, First: u.first}}, nil
}

func addressOf(n wire.Network) string {
	address, _, _ := strings.Cut(n.Address, "/")
	return address
}
