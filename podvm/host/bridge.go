package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/podvm/wire"
)

// Bridge connects machines with each other and with the host by a bridge and a tap for each; it needs root. Taps are not persistent: they go with the
// machines' processes.
type Bridge struct {
	name   string
	prefix netip.Prefix
	host   netip.Addr

	mu    sync.Mutex
	taken map[netip.Addr]bool
	last  netip.Addr
}

// NewBridge makes, or takes up, a bridge whose host address is the first of the prefix.
func NewBridge(name string, prefix netip.Prefix) (*Bridge, error) {
	prefix = prefix.Masked()
	if !prefix.Addr().Is4() || prefix.Bits() > 29 || len(name) >= unix.IFNAMSIZ-4 {
		return nil, fmt.Errorf("bridge %s, %s: an IPv4 prefix of 29 bits or less and a name of 11 characters or less are needed", name, prefix)
	}
	b := &Bridge{name: name, prefix: prefix, host: prefix.Addr().Next(), taken: map[netip.Addr]bool{}}
	b.last = b.host
	err := withSocket(func(fd int) error {
		n, _ := unix.BytePtrFromString(name)
		if err := ioctl(fd, unix.SIOCBRADDBR, unsafe.Pointer(n)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make it: %w", err)
		}
		mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-prefix.Bits()))
		if err := errors.Join(setInet4(fd, name, unix.SIOCSIFADDR, b.host.AsSlice()), setInet4(fd, name, unix.SIOCSIFNETMASK, mask)); err != nil {
			return fmt.Errorf("give it the address %s: %w", b.host, err)
		}
		return setUp(fd, name)
	})
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", name, err)
	}
	return b, nil
}

// Delete removes the bridge.
func (b *Bridge) Delete() error {
	return withSocket(func(fd int) error {
		req, err := unix.NewIfreq(b.name)
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
			return fmt.Errorf("set bridge %s down: %w", b.name, err)
		}
		n, _ := unix.BytePtrFromString(b.name)
		if err := ioctl(fd, unix.SIOCBRDELBR, unsafe.Pointer(n)); err != nil {
			return fmt.Errorf("remove bridge %s: %w", b.name, err)
		}
		return nil
	})
}

// Attach makes a tap in the bridge and takes the next free address.
func (b *Bridge) Attach(id string) (Attachment, error) {
	address, err := b.take()
	if err != nil {
		return Attachment{}, err
	}
	tap, err := b.tap()
	if err != nil {
		b.Release(wire.Network{Address: address.String() + "/0"})
		return Attachment{}, fmt.Errorf("make a tap for %s: %w", id, err)
	}
	ip := address.As4()
	return Attachment{Tap: tap, Guest: wire.Network{
		Address: netip.PrefixFrom(address, b.prefix.Bits()).String(), Gateway: b.host.String(),
		MAC: fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3]), // follows from the address: as unique as that
	}}, nil
}

// take goes round, so that an address that was just given back rests for a while.
func (b *Bridge) take() (netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.last
	for range 1<<(32-b.prefix.Bits()) - 3 { // neither network, host nor broadcast
		if a = a.Next(); !b.prefix.Contains(a.Next()) {
			a = b.host.Next()
		}
		if !b.taken[a] {
			b.taken[a], b.last = true, a
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("bridge %s: all addresses of %s are taken", b.name, b.prefix)
}

// Keep marks an address as taken.
func (b *Bridge) Keep(n wire.Network) {
	if a, err := netip.ParseAddr(addressOf(n)); err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.taken[a] = true
	}
}

// Release gives an address back.
func (b *Bridge) Release(n wire.Network) {
	if a, err := netip.ParseAddr(addressOf(n)); err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.taken, a)
	}
}

// tap opens a new tap interface and puts it into the bridge.
func (b *Bridge) tap() (tap *os.File, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	req, err := unix.NewIfreq(b.name[:min(len(b.name), 10)] + "-%d") // the kernel picks the number
	if err != nil {
		return nil, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, err
	}
	name := req.Name()
	err = withSocket(func(socket int) error {
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
	})
	if err != nil {
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
