package vmm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// UserNet is QEMU's user-mode network stack (libslirp), which connects a guest that is alone in its network with the
// host's sockets. libslirp forwards all addresses of that network to the host's loopback, where services often
// require no credentials, and QEMU has no option to prevent this. Therefore the guest's frames pass through a pair of
// sockets inside the VMM process on their way to libslirp, and a socket filter on the second one drops frames to
// forbidden destinations. This needs no other process and no privileges, and lasts as long as the VM.
type UserNet struct {
	Prefix       netip.Prefix // IPv4
	Gateway, DNS netip.Addr   // in Prefix; the host's name servers answer at DNS
	First        netip.Addr   // the first address that a guest may have
}

// devices returns QEMU's -netdev values: the guest's interface, and a hub that connects the second socket with
// libslirp.
func (u *UserNet) devices(guest, filtered int) []string {
	return []string{
		fmt.Sprintf("socket,fd=%d", guest),
		fmt.Sprintf("socket,fd=%d,id=filtered", filtered), "hubport,hubid=1,id=in,netdev=filtered",
		fmt.Sprintf("user,id=user,ipv6=off,net=%s,host=%s,dns=%s,dhcpstart=%s", u.Prefix, u.Gateway, u.DNS, u.First),
		"hubport,hubid=1,id=out,netdev=user",
	}
}

// sockets returns the pair. Data sent on guest and received on filtered passes the filter, which cannot be removed.
func (u *UserNet) sockets() (guest, filtered *os.File, err error) {
	program, err := bpf.Assemble(u.filter())
	if err != nil {
		return nil, nil, fmt.Errorf("assemble the filter of a guest's frames: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the sockets of a guest's network: %w", err)
	}
	guest, filtered = os.NewFile(uintptr(pair[0]), "guest"), os.NewFile(uintptr(pair[1]), "filtered")
	// bpf.RawInstruction is laid out as struct sock_filter of linux/filter.h.
	code := unix.SockFprog{Len: uint16(len(program)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	if err = unix.SetsockoptSockFprog(pair[1], unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &code); err == nil {
		err = unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1)
	}
	if err != nil {
		_, _ = guest.Close(), filtered.Close()
		return nil, nil, fmt.Errorf("filter a guest's frames: %w", err)
	}
	return guest, filtered, nil
}

// copyResolvers copies the host's list of name servers to where libslirp reads it in a confined VMM, whose root
// directory is dir. A VM keeps the name servers that the host had at its start. The VMM's user may search, but not list
// or change the directory.
func copyResolvers(dir string) error {
	servers, err := os.ReadFile("/etc/resolv.conf")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there are none
	}
	etc := filepath.Join(dir, "etc")
	file := filepath.Join(etc, "resolv.conf")
	if err == nil {
		err = errors.Join(os.MkdirAll(etc, 0o711), os.WriteFile(file, servers, 0o644), //nolint:gosec // no secret
			os.Chmod(dir, 0o711), os.Chmod(etc, 0o711), os.Chmod(file, 0o644)) //nolint:gosec // whatever the umask
	}
	if err != nil {
		return fmt.Errorf("copy the list of name servers: %w", err)
	}
	return nil
}

// Offsets into a frame, and values there, of Ethernet, IPv4, TCP and UDP.
const (
	offEtherType, etherIPv4, etherARP = 12, 0x0800, 0x0806
	offIP                             = 14
	offFragment, fragmentMask         = offIP + 6, 0x3fff // more fragments, and the offset of this one
	offProtocol, protoTCP, protoUDP   = offIP + 9, 6, 17
	offDestination                    = offIP + 16
	offPort, portDNS                  = offIP + 2, 53 // after the IP header
	wholeFrame                        = 1 << 18
)

// forbidden returns the destinations that lead to the host itself or, if link-local, to the host's cloud credentials.
// Linux treats 0.0.0.0 as loopback.
func (u *UserNet) forbidden() []netip.Prefix {
	return []netip.Prefix{
		u.Prefix.Masked(), netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("224.0.0.0/3"), // multicast, reserved, broadcast
	}
}

// filter returns a program that passes ARP, queries to the name server, and IPv4 packets to other destinations that
// are not forbidden.
func (u *UserNet) filter() []bpf.Instruction {
	pass, drop := bpf.RetConstant{Val: wholeFrame}, bpf.RetConstant{Val: 0}
	f := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offEtherType, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: etherARP, SkipTrue: 1},
		pass,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherIPv4, SkipTrue: 1},
		drop,
	}
	dns := []bpf.Instruction{ // drops fragments, which have no port
		bpf.LoadAbsolute{Off: offFragment, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: fragmentMask, SkipTrue: 6},
		bpf.LoadAbsolute{Off: offProtocol, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoUDP, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoTCP, SkipTrue: 3},
		bpf.LoadMemShift{Off: offIP},
		bpf.LoadIndirect{Off: offPort, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: portDNS, SkipTrue: 1},
		drop,
		pass,
	}
	f = append(f, bpf.LoadAbsolute{Off: offDestination, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ipv4(u.DNS), SkipTrue: uint8(len(dns))})
	f = append(f, dns...)
	for _, p := range u.forbidden() {
		f = slices.Concat(f, []bpf.Instruction{
			bpf.LoadAbsolute{Off: offDestination, Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ^uint32(0) << (32 - p.Bits())},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ipv4(p.Addr()), SkipTrue: 1},
			drop,
		})
	}
	return append(f, pass)
}

// ipv4 returns an address as the filter compares it.
func ipv4(a netip.Addr) uint32 { return binary.BigEndian.Uint32(a.AsSlice()) }
