package vmm

import (
	"fmt"
	"os/exec"
	"runtime"

	seccomp "github.com/elastic/go-seccomp-bpf"
)

// refusedCalls are system calls that QEMU has no use for, and a guest that has taken it over would have: they debug
// and read other processes, mount, change namespaces, in which a user without rights may gain some, and reach parts of
// the kernel in which ways to gain rights have been found. QEMU's own filter (see sandbox) leaves most of them out.
var refusedCalls = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
	"mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr",
	"unshare", "setns",
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "fanotify_init",
	"add_key", "request_key", "keyctl",
	"name_to_handle_at", "open_by_handle_at", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff",
	"init_module", "finit_module", "delete_module", "kexec_load", "reboot", "syslog", "vhangup",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname",
	"migrate_pages", "move_pages", "personality",
}

// startFiltered starts a command in which refusedCalls fail with EPERM, also in what it starts in turn. The filter is
// that of a thread of this process from which the command is started, and which ends then.
func startFiltered(cmd *exec.Cmd) error {
	if !seccomp.Supported() {
		return cmd.Start() // QEMU itself says that it cannot filter
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls:      []seccomp.SyscallGroup{{Names: refusedCalls, Action: seccomp.ActionErrno}},
		}})
		if err == nil {
			err = cmd.Start()
		} else {
			err = fmt.Errorf("load the filter of system calls: %w", err)
		}
		started <- err
	}()
	return <-started
}
