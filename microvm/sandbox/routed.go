package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Routed connects each machine with this one alone, by a tap of its own that is in no bridge: packets between
// machines are routed, so that all of this machine's rules for packets apply to them, and none can answer for another
// or send in its name. The bridge holds the addresses and this machine's own among them; it has no ports. Whoever
// uses it switches forwarding on where packets leave this machine.
type Routed struct{ *Bridge }

// Take takes the next free address. The guest sees nothing but its gateway.
func (r Routed) Take(id string) (wire.Network, error) {
	at, err := r.Bridge.Take(id)
	if err != nil {
		return at, err
	}
	at.Address = addressOf(at) + "/32"
	return at, nil
}

// Attach makes a tap with a route to the machine's address. Both go with the machine's process.
func (r Routed) Attach(id string, at wire.Network) (Attachment, error) {
	tap, err := openTap(r.name, func(socket int, name string) error { return r.connect(socket, name, at) })
	if err != nil {
		return Attachment{}, fmt.Errorf("make a tap for %s: %w", id, err)
	}
	return Attachment{Tap: tap}, nil
}

// connect makes an interface the way to a machine's address.
func (r Routed) connect(socket int, name string, at wire.Network) error {
	address, err := netip.ParseAddr(addressOf(at))
	if err != nil {
		return err
	}
	// It has this machine's address before it is up: with the mask of the address's class it would get a route to all of
	// that.
	if err := errors.Join(
		setInet4(socket, name, unix.SIOCSIFADDR, r.gateway.AsSlice()),
		setInet4(socket, name, unix.SIOCSIFNETMASK, []byte{255, 255, 255, 255}),
		setIPv4(name, "forwarding"), setIPv4(name, "rp_filter"), withoutIPv6(name),
	); err != nil {
		return err
	}
	if err := setUp(socket, name); err != nil {
		return err
	}
	return changeRoute(unix.SIOCADDRT, name, netip.PrefixFrom(address, 32))
}

// setIPv4 switches a setting of an interface on.
func setIPv4(device, setting string) error {
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", device, setting), []byte("1"), 0o644)
}

// withoutIPv6 keeps an interface's neighbours from announcing themselves to this machine as routers. A kernel may
// have no IPv6.
func withoutIPv6(device string) error {
	err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", device, "disable_ipv6"), []byte("1"), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
