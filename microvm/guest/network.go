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

// startNetwork configures the interfaces with ioctls: there is no ip command in a guest. The host may have made the
// device already.
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
		// struct ifreq with a sockaddr: the template's address is still in the device's state.
		var req [40]byte
		copy(req[:], nic)
		*(*uint16)(unsafe.Pointer(&req[16])) = unix.ARPHRD_ETHER
		copy(req[18:], mac)
		if err := ioctl(fd, unix.SIOCSIFHWADDR, unsafe.Pointer(&req)); err != nil {
			return fmt.Errorf("set the MAC address %s: %w", n.MAC, err)
		}
	}
	mask := net.CIDRMask(prefix.Bits(), 32)
	for _, step := range []struct {
		what    string
		request uint
		value   []byte
	}{
		{"address", unix.SIOCSIFADDR, prefix.Addr().AsSlice()},
		{"netmask", unix.SIOCSIFNETMASK, mask},
	} {
		req, err := unix.NewIfreq(nic)
		if err == nil {
			err = req.SetInet4Addr(step.value)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, step.request, req)
		}
		if err != nil {
			return fmt.Errorf("set the %s of %s: %w", step.what, nic, err)
		}
	}
	if n.MTU > 0 {
		req, err := unix.NewIfreq(nic)
		if err != nil {
			return err
		}
		req.SetUint32(uint32(n.MTU))
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, req); err != nil {
			return fmt.Errorf("set the MTU %d: %w", n.MTU, err)
		}
	}
	return up(fd, nic)
}

func up(fd int, name string) error {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
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

// addDefaultRoute adds the route by the gateway, and one to the gateway itself where that is not among the
// neighbours: with an address of 32 bits there are none.
func addDefaultRoute(fd int, n wire.Network) error {
	gw, err := netip.ParseAddr(n.Gateway)
	if err != nil || !gw.Is4() {
		return fmt.Errorf("the gateway %q is not an IPv4 address", n.Gateway)
	}
	if own, err := netip.ParsePrefix(n.Address); err == nil && !own.Contains(gw) {
		device, _ := unix.BytePtrFromString(nic)
		r := route{flags: unix.RTF_UP | unix.RTF_HOST, device: device}
		r.dst = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: gw.As4()}
		r.netmask = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{255, 255, 255, 255}}
		if err := addRoute(fd, &r); err != nil {
			return fmt.Errorf("add the route to the gateway %s: %w", n.Gateway, err)
		}
	}
	r := route{flags: unix.RTF_UP | unix.RTF_GATEWAY}
	r.dst.Family, r.netmask.Family = unix.AF_INET, unix.AF_INET
	r.gateway = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: gw.As4()}
	if err := addRoute(fd, &r); err != nil {
		return fmt.Errorf("add the default route by %s: %w", n.Gateway, err)
	}
	return nil
}

// addRoute adds a route that may be there already.
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

// writeEtc writes the files under /etc that every container of the pod gets.
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
		"resolv.conf": resolv.String(), "hosts": hosts.String(), "hostname": spec.Hostname + "\n",
		"machine-id": spec.MachineID + "\n",
	} {
		if err := os.WriteFile(filepath.Join(enter.PodDir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
