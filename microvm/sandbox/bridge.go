package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Bridge connects machines with each other and with the host by a bridge and a tap for each; it needs root. Taps are
// not persistent: they go with the machines' processes.
type Bridge struct {
	places
	name string
}

// NewBridge makes, or takes up, a bridge whose host address is the first of the prefix.
func NewBridge(name string, prefix netip.Prefix) (*Bridge, error) {
	prefix = prefix.Masked()
	if !prefix.Addr().Is4() || prefix.Bits() > 29 || len(name) >= unix.IFNAMSIZ-4 {
		return nil, fmt.Errorf("bridge %s, %s: an IPv4 prefix of 29 bits or less and a name of 11 characters or less are needed", name, prefix)
	}
	host := prefix.Addr().Next()
	b := &Bridge{name: name, places: newPlaces(prefix, host, host.Next())}
	err := withSocket(func(fd int) error {
		n, _ := unix.BytePtrFromString(name)
		if err := ioctl(fd, unix.SIOCBRADDBR, unsafe.Pointer(n)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make it: %w", err)
		}
		mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-prefix.Bits()))
		if err := errors.Join(setInet4(fd, name, unix.SIOCSIFADDR, host.AsSlice()),
			setInet4(fd, name, unix.SIOCSIFNETMASK, mask)); err != nil {
			return fmt.Errorf("give it the address %s: %w", host, err)
		}
		return errors.Join(withoutIPv6(name), setUp(fd, name))
	})
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", name, err)
	}
	return b, nil
}

// Name of the bridge's interface. Those of taps begin with it.
func (b *Bridge) Name() string { return b.name }

// Prefix of the machines' addresses.
func (b *Bridge) Prefix() netip.Prefix { return b.prefix }

// Address is this machine's among them.
func (b *Bridge) Address() netip.Addr { return b.gateway }

// Delete removes the bridge.
func (b *Bridge) Delete() error { return DeleteBridge(b.name) }

// DeleteBridge removes the bridge of a name, if there is one.
func DeleteBridge(name string) error {
	return withSocket(func(fd int) error {
		req, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); errors.Is(err, unix.ENODEV) {
			return nil
		} else if err != nil {
			return fmt.Errorf("set bridge %s down: %w", name, err)
		}
		n, _ := unix.BytePtrFromString(name)
		if err := ioctl(fd, unix.SIOCBRDELBR, unsafe.Pointer(n)); err != nil {
			return fmt.Errorf("remove bridge %s: %w", name, err)
		}
		return nil
	})
}

// Take takes the next free address.
func (b *Bridge) Take(string) (wire.Network, error) {
	at, err := b.take()
	if err != nil {
		return at, fmt.Errorf("bridge %s: %w", b.name, err)
	}
	return at, nil
}

// Attach makes a tap in the bridge.
func (b *Bridge) Attach(id string, _ wire.Network) (Attachment, error) {
	tap, err := b.tap()
	if err != nil {
		return Attachment{}, fmt.Errorf("make a tap for %s: %w", id, err)
	}
	return Attachment{Tap: tap}, nil
}

// tap opens a new tap interface and puts it into the bridge.
func (b *Bridge) tap() (*os.File, error) { return openTap(b.name, b.connect) }

// connect puts an interface into the bridge.
func (b *Bridge) connect(socket int, name string) error {
	index, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFINDEX, index); err != nil {
		return err
	}
	add, err := unix.NewIfreq(b.name)
	if err != nil {
		return err
	}
	add.SetUint32(index.Uint32())
	if err := unix.IoctlIfreq(socket, unix.SIOCBRADDIF, add); err != nil {
		return fmt.Errorf("put %s into bridge %s: %w", name, b.name, err)
	}
	return setUp(socket, name)
}

// openTap opens a new tap interface that is named after a bridge, and has it connected.
func openTap(bridge string, connect func(socket int, name string) error) (tap *os.File, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	req, err := unix.NewIfreq(bridge[:min(len(bridge), 10)] + "-%d") // the kernel picks the number
	if err != nil {
		return nil, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, err
	}
	name := req.Name()
	if err := withSocket(func(socket int) error { return connect(socket, name) }); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func withSocket(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return do(fd)
}

func setInet4(fd int, name string, request uint, value []byte) error {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := req.SetInet4Addr(value); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, request, req)
}

func setUp(fd int, name string) error {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
