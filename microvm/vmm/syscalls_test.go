package vmm_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// mustBeRefused are system calls with which a guest that has taken over its VMM could start programs, inspect other
// processes, gain rights in new namespaces, or reach far into the kernel.
var mustBeRefused = []string{
	"acct", "add_key", "bpf", "clock_settime", "clone", "delete_module", "execve", "execveat", "fanotify_init",
	"finit_module", "fsmount", "fsopen", "init_module", "io_uring_setup", "kcmp", "kexec_load", "keyctl", "mount",
	"mount_setattr", "move_mount", "open_by_handle_at", "open_tree", "perf_event_open", "personality", "pidfd_getfd",
	"pivot_root", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "reboot", "request_key",
	"sched_setscheduler", "setdomainname", "sethostname", "setns", "setpriority", "settimeofday", "swapon", "syslog",
	"umount2", "unshare", "userfaultfd",
}

// tracedVariable holds a thread ID, and makes this program print, as JSON, the system calls that the thread's filters
// refuse.
const tracedVariable = "VMM_TEST_TRACED"

func TestMain(m *testing.M) {
	if id, err := strconv.Atoi(os.Getenv(tracedVariable)); err == nil {
		refused, err := readRefused(id)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(refused)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// callsRefused returns the names of all system calls that the filters of a thread refuse whatever their arguments,
// which are zero here. It runs in a separate process: a process that waits for its child's end, as ours does for its
// VMM's, would also be notified when the child is stopped for inspection, and mistake that for its end.
func callsRefused(t *testing.T, thread int) (refused []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), tracedVariable+"="+strconv.Itoa(thread))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &refused)
	}
	if err != nil {
		t.Fatalf("filters of thread %d: %v", thread, err)
	}
	return refused
}

func readRefused(thread int) (refused []string, _ error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	filters, err := filtersOf(thread)
	if err != nil {
		return nil, err
	}
	for name, number := range info.SyscallNames {
		data := make([]byte, 64) // struct seccomp_data, with words in the byte order of package bpf
		binary.BigEndian.PutUint32(data, uint32(number))
		binary.BigEndian.PutUint32(data[4:], uint32(info.ID))
		for _, f := range filters {
			action, err := f.Run(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if uint32(action)&unix.SECCOMP_RET_ACTION_FULL != unix.SECCOMP_RET_ALLOW {
				refused = append(refused, name)
				break
			}
		}
	}
	slices.Sort(refused)
	return refused, nil
}

// filtersOf reads a thread's filters, as a debugger with all rights (ptrace(2), PTRACE_SECCOMP_GET_FILTER).
func filtersOf(thread int) (all []*bpf.VM, _ error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(thread); err != nil {
		return nil, err
	}
	defer func() { _ = unix.PtraceDetach(thread) }()
	if err := unix.PtraceInterrupt(thread); err != nil {
		return nil, err
	}
	if _, err := unix.Wait4(thread, nil, unix.WALL, nil); err != nil {
		return nil, err
	}
	for i := uintptr(0); ; i++ {
		raw := make([]struct {
			code   uint16
			jt, jf uint8
			k      uint32
		}, 4096)
		n, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(thread), i,
			uintptr(unsafe.Pointer(&raw[0])), 0, 0)
		if errno == unix.ENOENT {
			return all, nil
		}
		if errno != 0 {
			return nil, fmt.Errorf("read filter %d: %w", i, errno)
		}
		program := make([]bpf.Instruction, n)
		for j, r := range raw[:n] {
			program[j] = bpf.RawInstruction{Op: r.code, Jt: r.jt, Jf: r.jf, K: r.k}.Disassemble()
		}
		vm, err := bpf.NewVM(program)
		if err != nil {
			return nil, err
		}
		all = append(all, vm)
	}
}

// threadsOf returns a process's threads.
func threadsOf(t *testing.T, pid int) (all []int) {
	t.Helper()
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if id, err := strconv.Atoi(filepath.Base(task)); err == nil {
			all = append(all, id)
		}
	}
	return all
}
