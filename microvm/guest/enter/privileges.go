package enter

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// dropPrivileges makes the process the container's user, with the container's capabilities. At exec the kernel derives
// all other capability sets from the bounding set and the user.
func dropPrivileges(c *wire.Container) error {
	for number, name := range wire.Capabilities {
		if c.Privileged || slices.Contains(c.Capabilities, name) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %s: %w", name, err)
		}
	}
	uid, gid := int(c.User.UID), int(c.User.GID)
	for _, fd := range []int{0, 1, 2} { // so that the user can open /dev/stdout
		_ = unix.Fchown(fd, uid, -1)
	}
	if c.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	if err := filterCalls(c.Seccomp); err != nil { // needs no_new_privs or the rights that are dropped next
		return err
	}
	var groups []int
	for _, g := range c.User.Groups {
		groups = append(groups, int(g))
	}
	if err := unix.Setgroups(groups); err != nil {
		return fmt.Errorf("set the groups %v: %w", groups, err)
	}
	if err := unix.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("set group %d: %w", gid, err)
	}
	if err := unix.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("set user %d: %w", uid, err)
	}
	return nil
}

// filterCalls filters the system calls of this thread, and of the program that it executes.
func filterCalls(program []byte) error {
	const instruction = unsafe.Sizeof(unix.SockFilter{})
	if len(program) == 0 {
		return nil
	}
	filter := unix.SockFprog{
		Len: uint16(len(program) / int(instruction)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0])),
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&filter))); errno != 0 {
		return fmt.Errorf("filter its system calls: %w", errno)
	}
	return nil
}

// limitOpenFiles sets the limits that containers have on Fargate (EKS User Guide, AWS Fargate considerations). Exec
// keeps them because they are set with package syscall.
func limitOpenFiles() error {
	limit := syscall.Rlimit{Cur: 1024, Max: 65535}
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	// A host that is a container itself may not raise its own limit.
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		return err
	}
	limit = syscall.Rlimit{Cur: min(limit.Cur, own.Max), Max: own.Max}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
