package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rtentry is struct rtentry of linux/route.h on a 64-bit machine.
type rtentry struct {
	_                     uint64
	dst, gateway, netmask unix.RawSockaddrInet4
	flags                 uint16
	_                     [6]byte
	_                     [8]byte // rt_pad3, rt_tos, rt_class, rt_pad4
	_                     [8]byte
	metric                int16
	_                     [6]byte
	device                *byte
	mtu, window           uint64
	irtt                  uint16
	_                     [6]byte
}

// AddRoute makes this machine send packets to a prefix into the bridge. The route goes with the bridge; that it is
// there is no error.
func (b *Bridge) AddRoute(to netip.Prefix) error { return changeRoute(unix.SIOCADDRT, b.name, to) }

// DeleteRoute takes it back; that it is not there is no error.
func (b *Bridge) DeleteRoute(to netip.Prefix) error { return changeRoute(unix.SIOCDELRT, b.name, to) }

// changeRoute adds or deletes (SIOCADDRT, SIOCDELRT) the route to a prefix by an interface.
func changeRoute(request uint, name string, to netip.Prefix) error {
	device, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	r := rtentry{flags: unix.RTF_UP, device: device}
	if to.Bits() == 32 {
		r.flags |= unix.RTF_HOST
	}
	r.dst = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: to.Masked().Addr().As4()}
	r.netmask = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte(net.CIDRMask(to.Bits(), 32))}
	err = withSocket(func(fd int) error { return ioctl(fd, request, unsafe.Pointer(&r)) })
	if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("route to %s by %s: %w", to, name, err)
	}
	return nil
}
