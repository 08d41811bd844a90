package podspec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// ErrCreate is wrapped by errors for which a kubelet reports CreateContainerError: its container runtime refuses the
// container.
var ErrCreate = errors.New("failed to create containerd container")

// seccompDir is where a kubelet looks for the profiles of its node (Kubernetes documentation, "Restrict a Container's
// Syscalls with seccomp"). A microVM has none.
const seccompDir = "/var/lib/kubelet/seccomp/"

// seccomp returns the program that filters a container's system calls, in the form of wire.Container; nil for none. As
// with a kubelet, a container without a profile or with privileges is unconfined.
func seccomp(security *corev1.SecurityContext, capabilities []string) ([]byte, error) {
	profile := security.SeccompProfile
	if profile == nil || ptr.Deref(security.Privileged, false) {
		return nil, nil
	}
	switch profile.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return assemble(allowedCalls(capabilities))
	case corev1.SeccompProfileTypeLocalhost:
		path := seccompDir + ptr.Deref(profile.LocalhostProfile, "")
		return nil, fmt.Errorf("%w: cannot load seccomp profile %q: open %[2]s: no such file or directory", ErrCreate, path)
	}
	return nil, nil
}

// callsWith are the system calls that a capability allows besides commonCalls.
var callsWith = map[string][]string{
	"BPF":             {"bpf"},
	"DAC_READ_SEARCH": {"open_by_handle_at"},
	"PERFMON":         {"perf_event_open"},
	"SYS_ADMIN": {
		"bpf", "clone3", "fanotify_init", "fsconfig", "fsmount", "fsopen", "fspick", "lookup_dcookie", "mount",
		"mount_setattr", "move_mount", "open_tree", "perf_event_open", "quotactl", "quotactl_fd", "setdomainname",
		"sethostname", "setns", "syslog", "umount", "umount2", "unshare",
	},
	"SYS_BOOT":   {"reboot"},
	"SYS_CHROOT": {"chroot"},
	"SYS_MODULE": {"delete_module", "init_module", "finit_module"},
	"SYS_NICE":   {"get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"},
	"SYS_PACCT":  {"acct"},
	"SYS_PTRACE": {"kcmp", "pidfd_getfd", "process_madvise"},
	"SYS_RAWIO":  {"iopl", "ioperm"},
	"SYS_TIME":   {"settimeofday", "stime", "clock_settime", "clock_settime64"},
	"SYSLOG":     {"syslog"},

	"SYS_TTY_CONFIG": {"vhangup"},
}

// allowedCalls returns the names of the system calls that containerd's default profile allows with these capabilities,
// and whether the container may make namespaces.
func allowedCalls(capabilities []string) (names []string, namespaces bool) {
	names = slices.Clone(commonCalls)
	for _, c := range capabilities {
		names = append(names, callsWith[c]...)
	}
	return names, slices.Contains(capabilities, "SYS_ADMIN")
}

// Results of a filter. If a call is unknown, C libraries use an older one instead.
const (
	callAllowed = unix.SECCOMP_RET_ALLOW
	callRefused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	callUnknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// Fields of struct seccomp_data (seccomp(2)).
const (
	dataCall, dataArch, dataArgument = 0, 4, 16 // the lower half of the first argument, on x86
	dataWidth                        = 4
)

// newNamespaces are the flags of clone(2) that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// assemble returns the program of a filter. It knows the calls of x86-64 and those of 32-bit programs; of calls with
// conditions it looks at the first argument, of which the kernel itself uses only the lower half:
//
//   - clone only without namespaces, unless they are allowed; clone3, whose flags a filter cannot see, does not exist;
//   - socket without AF_VSOCK, on which a virtual machine's host may listen;
//   - personality only with the values of ordinary programs.
//
// As with runc, calls beyond the last one of the profile do not exist: those that are newer, and x86-64's 32-bit ABI.
func assemble(names []string, namespaces bool) ([]byte, error) {
	var program []bpf.Instruction
	for _, a := range []*arch.Info{arch.X86_64, arch.I386} {
		allowed := ranges(a, names)
		body := []bpf.Instruction{
			bpf.LoadAbsolute{Off: dataCall, Size: dataWidth},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: allowed[len(allowed)-1].last, SkipFalse: 1},
			bpf.RetConstant{Val: callUnknown},
		}
		for _, r := range allowed {
			body = append(body, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: r.first, SkipFalse: 2},
				bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: r.last, SkipTrue: 1}, bpf.RetConstant{Val: callAllowed})
		}
		body = append(body, conditional(a, namespaces)...)
		body = append(body, bpf.RetConstant{Val: callRefused})
		program = append(program, bpf.LoadAbsolute{Off: dataArch, Size: dataWidth},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(a.ID), SkipTrue: 1}, bpf.Jump{Skip: uint32(len(body))})
		program = append(program, body...)
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: callRefused}))
	if err != nil {
		return nil, fmt.Errorf("assemble the filter of system calls: %w", err)
	}
	var out []byte
	for _, i := range raw {
		out = append(binary.LittleEndian.AppendUint16(out, i.Op), i.Jt, i.Jf)
		out = binary.LittleEndian.AppendUint32(out, i.K)
	}
	return out, nil
}

// conditional returns the instructions for the calls that are allowed with some arguments only. They expect the call's
// number in the accumulator, and leave it there if it is none of theirs.
func conditional(a *arch.Info, namespaces bool) (out []bpf.Instruction) {
	call := func(name string, then ...bpf.Instruction) {
		number, ok := a.SyscallNames[name]
		if !ok {
			return
		}
		out = append(out, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: uint8(len(then))})
		out = append(out, then...)
	}
	argument := bpf.LoadAbsolute{Off: dataArgument, Size: dataWidth}
	if namespaces {
		call("clone", bpf.RetConstant{Val: callAllowed})
	} else {
		call("clone3", bpf.RetConstant{Val: callUnknown})
		call("clone", argument, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1},
			bpf.RetConstant{Val: callRefused}, bpf.RetConstant{Val: callAllowed})
	}
	call("socket", argument, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_VSOCK, SkipFalse: 1},
		bpf.RetConstant{Val: callRefused}, bpf.RetConstant{Val: callAllowed})
	ordinary := []bpf.Instruction{argument}
	for _, persona := range []uint32{0, 0x8, 0x20000, 0x20008, 0xffffffff} { // Linux, its variants, and "which is it?"
		ordinary = append(ordinary, bpf.JumpIf{Cond: bpf.JumpEqual, Val: persona, SkipFalse: 1},
			bpf.RetConstant{Val: callAllowed})
	}
	call("personality", append(ordinary, bpf.RetConstant{Val: callRefused})...)
	return out
}

// callRange is a range of numbers of system calls, with both ends.
type callRange struct{ first, last uint32 }

// ranges returns the numbers of those calls that an architecture has, in order.
func ranges(a *arch.Info, names []string) (out []callRange) {
	var numbers []uint32
	for _, name := range names {
		if n, ok := a.SyscallNames[name]; ok {
			numbers = append(numbers, uint32(n))
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if last := len(out) - 1; last >= 0 && n <= out[last].last+1 {
			out[last].last = n
		} else {
			out = append(out, callRange{n, n})
		}
	}
	return out
}
