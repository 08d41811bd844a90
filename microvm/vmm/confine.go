package vmm

import (
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// User IDs of confined VMMs, one per VM. The range lies between those of containers and of foreign disk images, and
// is otherwise unassigned (systemd.io/UIDS-GIDS).
const (
	firstUser = 0x7000_0000
	mostUsers = 0x0ffe_0000
)

// ownNamespaces are the namespaces of a confined VMM: it sees no process but itself and no network but the interface
// that it was given. It has a mount table of its own, and refusedCalls keeps it from mounting. What the host unmounts
// vanishes from it only if the host's mounts are shared, as systemd makes them; else it stays in use until the VM ends.
const ownNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNS

// userOf returns the user ID, which is also the group ID, of a VM's VMM.
func userOf(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // it never fails
	return firstUser + h.Sum32()%mostUsers
}

// confine returns QEMU's arguments for dropping root's privileges. It returns none if this process is not root: then
// QEMU has no more privileges than this process.
func (q *QEMU) confine(id string) []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return confinement(q.help, userOf(id))
}

// confinement returns QEMU's arguments for becoming a user without capabilities once it has opened the VM's files.
// Its root directory is then its working directory, the VM's state directory, where everything belongs to root. help
// is the output of `qemu -help`: the options have been renamed (QEMU, "Removed features": -chroot and -runas).
func confinement(help string, user uint32) []string {
	_, runWith, _ := strings.Cut(help, "\n-run-with ")
	runWith, _, _ = strings.Cut(runWith, "\n-")
	var args, with []string
	if strings.Contains(runWith, "chroot=") {
		with = append(with, "chroot=.")
	} else {
		args = append(args, "-chroot", ".")
	}
	if strings.Contains(runWith, "user=") {
		with = append(with, fmt.Sprintf("user=%d:%[1]d", user))
	} else {
		args = append(args, "-runas", fmt.Sprintf("%d:%[1]d", user))
	}
	if len(with) > 0 {
		args = append(args, "-run-with", strings.Join(with, ","))
	}
	return args
}

// sandbox returns the value of QEMU's -sandbox, its system call filter. A confined QEMU must change its user while
// the filter is active; afterwards it has no capability to do so again and can gain none (no_new_privs, which the
// filter requires).
func sandbox(confined bool) string {
	elevate := "deny"
	if confined {
		elevate = "allow"
	}
	return "on,obsolete=deny,elevateprivileges=" + elevate + ",spawn=deny,resourcecontrol=deny"
}
