package vmm

import (
	"fmt"
	"os/exec"

	seccomp "github.com/elastic/go-seccomp-bpf"

	"github.com/nodeless/nodeless/internal/kit/osthread"
)

// refusedCalls are system calls that QEMU does not need, but that would be useful to a guest that has taken it over:
// they debug and read other processes, mount, change namespaces, in which an unprivileged user may gain privileges,
// and reach parts of the kernel in which privilege escalations have been found. QEMU's own filter (see sandbox)
// allows most of them.
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

// startFiltered starts a command in which, and in whose descendants, refusedCalls fail with EPERM. It loads the
// filter into a thread of this process, starts the command from that thread and ends the thread.
func startFiltered(cmd *exec.Cmd) error {
	if !seccomp.Supported() {
		return cmd.Start() // QEMU itself reports that it cannot filter
	}
	return osthread.Run(func() error {
		err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls:      []seccomp.SyscallGroup{{Names: refusedCalls, Action: seccomp.ActionErrno}},
		}})
		if err != nil {
			return fmt.Errorf("load the filter of system calls: %w", err)
		}
		return cmd.Start()
	})
}
