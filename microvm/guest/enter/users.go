package enter

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// identity is who a process runs as.
type identity struct {
	uid, gid int
	groups   []int
	home     string
}

// account is a line of /etc/passwd.
type account struct {
	name, home string
	uid, gid   int
}

// lookUpUser resolves a user against the container's own /etc/passwd and /etc/group, as container runtimes do.
func lookUpUser(u wire.User) (identity, error) {
	user, group, _ := strings.Cut(u.Name, ":")
	if u.UID != nil {
		user = strconv.FormatInt(*u.UID, 10)
	}
	id := identity{home: "/"}
	found, err := findAccount(user)
	if err != nil {
		return id, err
	}
	id.uid, id.gid = found.uid, found.gid
	if found.home != "" {
		id.home = found.home
	}
	if u.NonRoot && id.uid == 0 {
		return id, errors.New("container has runAsNonRoot and image will run as root")
	}
	switch {
	case u.GID != nil:
		id.gid = int(*u.GID)
	case group != "" && u.UID == nil:
		if id.gid, err = findGroup(group); err != nil {
			return id, err
		}
	}
	for _, g := range u.Groups {
		id.groups = append(id.groups, int(g))
	}
	if found.name != "" {
		_ = eachLine("/etc/group", func(f []string) bool {
			if len(f) == 4 {
				for _, member := range strings.Split(f[3], ",") {
					if gid, err := strconv.Atoi(f[2]); err == nil && member == found.name {
						id.groups = append(id.groups, gid)
					}
				}
			}
			return true
		})
	}
	return id, nil
}

func findAccount(user string) (account, error) {
	if user == "" {
		user = "0"
	}
	number, numberErr := strconv.Atoi(user)
	var found *account
	err := eachLine("/etc/passwd", func(f []string) bool {
		if len(f) < 6 {
			return true
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 == nil && err2 == nil && (f[0] == user || numberErr == nil && uid == number) {
			found = &account{f[0], f[5], uid, gid}
		}
		return found == nil
	})
	switch {
	case found != nil:
		return *found, nil
	case numberErr == nil:
		return account{uid: number}, nil // a number needs no entry; its group is 0
	case err != nil:
		return account{}, fmt.Errorf("user %q: the image has no /etc/passwd to find it in: use a number", user)
	}
	return account{}, fmt.Errorf("user %q is not in the image's /etc/passwd", user)
}

func findGroup(group string) (int, error) {
	if gid, err := strconv.Atoi(group); err == nil {
		return gid, nil
	}
	gid := -1
	_ = eachLine("/etc/group", func(f []string) bool {
		if len(f) >= 3 && f[0] == group {
			if n, err := strconv.Atoi(f[2]); err == nil {
				gid = n
			}
		}
		return gid < 0
	})
	if gid < 0 {
		return 0, fmt.Errorf("group %q is not in the image's /etc/group", group)
	}
	return gid, nil
}

// eachLine gives the fields of each line until do returns false.
func eachLine(path string, do func(fields []string) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if !do(strings.Split(s.Text(), ":")) {
			break
		}
	}
	return nil
}

// capabilities of linux/capability.h by their names without CAP_.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
	NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE
	SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON
	BPF CHECKPOINT_RESTORE`)

// dropPrivileges leaves the process what the container may have. The kernel derives all other capability sets from
// the bounding set and the user at exec.
func dropPrivileges(c *wire.Container, id identity) error {
	if !c.Privileged {
		keep := map[string]bool{}
		for _, name := range c.Capabilities {
			keep[name] = true
		}
		for number, name := range capabilities {
			if keep[name] {
				continue
			}
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("drop capability %s: %w", name, err)
			}
		}
	}
	for _, fd := range []int{0, 1, 2} { // so that the user can open /dev/stdout
		_ = unix.Fchown(fd, id.uid, -1)
	}
	if c.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	if err := unix.Setgroups(id.groups); err != nil {
		return fmt.Errorf("set the groups %v: %w", id.groups, err)
	}
	if err := unix.Setresgid(id.gid, id.gid, id.gid); err != nil {
		return fmt.Errorf("set group %d: %w", id.gid, err)
	}
	if err := unix.Setresuid(id.uid, id.uid, id.uid); err != nil {
		return fmt.Errorf("set user %d: %w", id.uid, err)
	}
	return nil
}
