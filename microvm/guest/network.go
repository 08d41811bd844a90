package guest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

const nic = "eth0"

// startNetwork configures the interfaces with ioctls, since a guest has no ip command. It binds the driver to the
// network device unless the host has made the device already.
func startNetwork(n wire.Network, made bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket to configure the network: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := up(fd, "lo"); err != nil {
		return err
	}
	if n.Address == "" {
		return nil
	}
	if !made {
		if err := bindDevices(virtioNet, "virtio_net", func() (bool, error) { return true, nil }); err != nil {
			return err
		}
	}
	if err := awaitFile(filepath.Join("/sys/class/net", nic)); err != nil {
		return fmt.Errorf("the guest has no network device: %w", err)
	}
	if err := addressNIC(fd, n); err != nil {
		return err
	}
	if n.Gateway == "" {
		return nil
	}
	return addDefaultRoute(fd, n)
}

func addressNIC(fd int, n wire.Network) error {
	prefix, err := netip.ParsePrefix(n.Address)
	if err != nil || !prefix.Addr().Is4() {
		return fmt.Errorf("the pod's address %q is not an IPv4 address with a prefix length", n.Address)
	}
	if n.MAC != "" {
		mac, err := net.ParseMAC(n.MAC)
		if err != nil {
			return err
		}
		// struct ifreq with a sockaddr. The device still has the template's address.
		var req [40]byte
		copy(req[:], nic)
		*(*uint16)(unsafe.Pointer(&req[16])) = unix.ARPHRD_ETHER
		copy(req[18:], mac)
		if err := ioctl(fd, unix.SIOCSIFHWADDR, unsafe.Pointer(&req)); err != nil {
			return fmt.Errorf("set the MAC address %s: %w", n.MAC, err)
		}
	}
	var failed []error
	set := func(what string, request uint, fill func(*unix.Ifreq) error) {
		if err := configure(fd, nic, request, fill); err != nil {
			failed = append(failed, fmt.Errorf("set the %s of %s: %w", what, nic, err))
		}
	}
	set("address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(prefix.Addr().AsSlice()) })
	mask := net.CIDRMask(prefix.Bits(), 32)
	set("netmask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) })
	if n.MTU > 0 {
		set("MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(n.MTU)); return nil })
	}
	return errors.Join(append(failed, up(fd, nic))...)
}

// configure fills in a request about a device and issues it.
func configure(fd int, device string, request uint, fill func(*unix.Ifreq) error) error {
	r, err := unix.NewIfreq(device)
	if err == nil {
		err = fill(r)
	}
	if err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, request, r)
}

func up(fd int, name string) error {
	if err := configure(fd, name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	}); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// route is struct rtentry of linux/route.h on a 64-bit machine.
type route struct {
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

// addDefaultRoute adds the default route through the gateway. If the gateway is outside the pod's own prefix, as with
// a /32 address, it first adds a route to the gateway.
func addDefaultRoute(fd int, n wire.Network) error {
	gw, err := netip.ParseAddr(n.Gateway)
	if err != nil || !gw.Is4() {
		return fmt.Errorf("the gateway %q is not an IPv4 address", n.Gateway)
	}
	address := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: gw.As4()}
	if own, err := netip.ParsePrefix(n.Address); err == nil && !own.Contains(gw) {
		device, _ := unix.BytePtrFromString(nic)
		r := route{flags: unix.RTF_UP | unix.RTF_HOST, device: device, dst: address}
		r.netmask = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{255, 255, 255, 255}}
		if err := addRoute(fd, &r); err != nil {
			return fmt.Errorf("add the route to the gateway %s: %w", n.Gateway, err)
		}
	}
	r := route{flags: unix.RTF_UP | unix.RTF_GATEWAY, gateway: address}
	r.dst.Family, r.netmask.Family = unix.AF_INET, unix.AF_INET
	if err := addRoute(fd, &r); err != nil {
		return fmt.Errorf("add the default route by %s: %w", n.Gateway, err)
	}
	return nil
}

// addRoute adds a route unless it exists already.
func addRoute(fd int, r *route) error {
	if err := ioctl(fd, unix.SIOCADDRT, unsafe.Pointer(r)); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// writeEtc writes the files in /etc that every container of the pod gets.
func writeEtc(spec wire.Pod) error {
	var resolv, hosts strings.Builder
	for _, s := range spec.Network.Nameservers {
		fmt.Fprintf(&resolv, "nameserver %s\n", s)
	}
	if len(spec.Network.Searches) > 0 {
		fmt.Fprintf(&resolv, "search %s\n", strings.Join(spec.Network.Searches, " "))
	}
	if len(spec.Network.Options) > 0 {
		fmt.Fprintf(&resolv, "options %s\n", strings.Join(spec.Network.Options, " "))
	}
	hosts.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	if address, _, ok := strings.Cut(spec.Network.Address, "/"); ok {
		names := spec.Hostname
		if spec.Network.Domain != "" {
			names = spec.Hostname + "." + spec.Network.Domain + "\t" + spec.Hostname
		}
		fmt.Fprintf(&hosts, "%s\t%s\n", address, names)
	}
	for _, alias := range spec.Network.Hosts {
		fmt.Fprintf(&hosts, "%s\t%s\n", alias.IP, strings.Join(alias.Names, "\t"))
	}
	for name, content := range map[string]string{
		"resolv.conf": resolv.String(), "hosts": hosts.String(), "hostname": spec.KernelHostname() + "\n",
		"machine-id": spec.MachineID + "\n",
	} {
		if err := os.WriteFile(filepath.Join(enter.PodDir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
