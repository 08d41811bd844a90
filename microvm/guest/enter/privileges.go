package enter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// capabilities of linux/capability.h in the order of their numbers, without CAP_.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
	LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
	SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)

// dropPrivileges makes the process the container's user, with the container's capabilities. At exec the kernel derives
// all other capability sets from the bounding set and the user.
func dropPrivileges(c *wire.Container) error {
	for number, name := range capabilities {
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
