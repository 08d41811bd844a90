package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const reseedCRNG = 0x5207 // RNDRESEEDCRNG of linux/random.h

// becomeUnique gives the guest its own clock, randomness and name, which a clone shares with its template until then.
func (p *pod) becomeUnique() error {
	spec := p.spec
	if p.host == nil {
		if err := stepClock(spec.UnixNano); err != nil {
			return err
		}
		if err := reseed(spec.Entropy); err != nil {
			return fmt.Errorf("reseed the guest's random numbers: %w", err)
		}
	} else if err := p.host.allows(spec); err != nil {
		return err
	}
	name := spec.KernelHostname()
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set the host name %q: %w", name, err)
	}
	for name, value := range spec.Sysctls {
		path := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return fmt.Errorf("set sysctl %s: %w", name, err)
		}
	}
	return nil
}

// reseed adds entropy to the kernel's pool, counted as such, and makes the generator use it at once.
func reseed(entropy []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// struct rand_pool_info: entropy_count in bits, buf_size in bytes, buf.
	buf := make([]uint32, 2+(len(entropy)+3)/4)
	buf[0], buf[1] = uint32(8*len(entropy)), uint32(len(entropy))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&buf[2:][:1][0])), 4*(len(buf)-2)), entropy)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY,
		uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
		return errno
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), reseedCRNG, 0); errno != 0 {
		return errno
	}
	return nil
}
