package host

import (
	"os"
	"strings"

	"github.com/nodeless/nodeless/podvm/wire"
)

// Attachment is a machine's place in a network.
type Attachment struct {
	Tap     *os.File // nil: user mode
	UserNet string
	Guest   wire.Network
}

// Network gives machines their places.
type Network interface {
	Attach(id string) (Attachment, error)
	// Keep marks the place of a machine that was found again as taken.
	Keep(wire.Network)
	// Release gives a place back. Releasing none is no error.
	Release(wire.Network)
}

// UserMode is QEMU's own network stack: it needs no privileges. Each pod is alone in a network of its own, with the same address, reaches out through
// the host (TCP and UDP, no ICMP), and cannot be reached but by port-forward.
type UserMode struct{}

// Attach gives QEMU's defaults.
func (UserMode) Attach(string) (Attachment, error) {
	return Attachment{Guest: wire.Network{Address: "10.0.2.15/24", Gateway: "10.0.2.2", Nameservers: []string{"10.0.2.3"}}}, nil
}

// Keep does nothing.
func (UserMode) Keep(wire.Network) {}

// Release does nothing.
func (UserMode) Release(wire.Network) {}

func addressOf(n wire.Network) string {
	address, _, _ := strings.Cut(n.Address, "/")
	return address
}
