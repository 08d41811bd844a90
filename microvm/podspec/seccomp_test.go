package podspec

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// answer runs a filter on a system call with one argument.
func answer(t *testing.T, program []byte, a *arch.Info, call string, argument uint32) string {
	t.Helper()
	return answerTo(t, program, a, uint32(a.SyscallNames[call]), argument)
}

func answerTo(t *testing.T, program []byte, a *arch.Info, number, argument uint32) string {
	t.Helper()
	var instructions []bpf.Instruction
	for b := range slices.Chunk(program, 8) {
		instructions = append(instructions, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:]),
		}.Disassemble())
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64) // struct seccomp_data, with words in the byte order of package bpf
	binary.BigEndian.PutUint32(data, number)
	binary.BigEndian.PutUint32(data[4:], uint32(a.ID))
	binary.BigEndian.PutUint32(data[16:], argument)
	result, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	switch uint32(result) {
	case unix.SECCOMP_RET_ALLOW:
		return "allowed"
	case callRefused:
		return unix.EPERM.Error()
	case callUnknown:
		return unix.ENOSYS.Error()
	}
	return "neither"
}

// The default profile refuses what changes the kernel or the container, unless a capability allows it.
func TestTheDefaultProfileOfSystemCalls(t *testing.T) {
	const no, none = "operation not permitted", "function not implemented"
	plain := capabilities(nil)
	admin := append(slices.Clone(plain), "SYS_ADMIN")
	for _, c := range []struct {
		call         string
		argument     uint32
		plain, admin string
	}{
		{"read", 0, "allowed", "allowed"},
		{"execve", 0, "allowed", "allowed"},
		{"setuid", 0, "allowed", "allowed"},
		{"ptrace", 0, "allowed", "allowed"},
		{"chroot", 0, "allowed", "allowed"},
		{"mount", 0, no, "allowed"},
		{"unshare", 0, no, "allowed"},
		{"bpf", 0, no, "allowed"},
		{"clone", uint32(unix.SIGCHLD), "allowed", "allowed"},
		{"clone", unix.CLONE_NEWUSER | uint32(unix.SIGCHLD), no, "allowed"},
		{"clone3", 0, none, "allowed"},
		{"socket", unix.AF_INET, "allowed", "allowed"},
		{"socket", unix.AF_VSOCK, no, no},
		{"personality", 0xffffffff, "allowed", "allowed"},
		{"personality", 0x0400000, no, no},
		{"reboot", 0, no, no},
		{"io_uring_setup", 0, no, no},
		{"kexec_load", 0, no, no},
		{"keyctl", 0, no, no},
	} {
		for i, have := range [][]string{plain, admin} {
			program, err := assemble(allowedCalls(have))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{c.plain, c.admin}[i]
			for _, a := range []*arch.Info{arch.X86_64, arch.I386} {
				if got := answer(t, program, a, c.call, c.argument); got != want {
					t.Errorf("%s(%#x) of %s with %s: %s, want %s", c.call, c.argument, a.Name, have, got, want)
				}
			}
			if got := answer(t, program, arch.AARCH64, c.call, c.argument); got != no {
				t.Errorf("a call of another architecture: %s", got)
			}
		}
	}
}

// As with runc, C libraries and programs notice that calls do not exist which are newer than the profile.
func TestNewerSystemCallsDoNotExist(t *testing.T) {
	program, err := assemble(allowedCalls(capabilities(nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*arch.Info{arch.X86_64, arch.I386} {
		for _, number := range []uint32{999, 0x4000_0000, 0xffff_ffff} { // the second is read for x86-64's 32-bit ABI
			if got := answerTo(t, program, a, number, 0); got != unix.ENOSYS.Error() {
				t.Errorf("%d of %s: %s", number, a.Name, got)
			}
		}
	}
}

// A misspelt name would allow nothing.
func TestTheNamesOfSystemCalls(t *testing.T) {
	all := slices.Clone(commonCalls)
	for _, names := range callsWith {
		all = append(all, names...)
	}
	for _, name := range all {
		_, is64 := arch.X86_64.SyscallNames[name]
		if _, is32 := arch.I386.SyscallNames[name]; !is64 && !is32 && name != "fstatat64" {
			t.Errorf("there is no system call %s", name)
		}
	}
}

func TestSeccompProfiles(t *testing.T) {
	for _, c := range []struct {
		name, pod, container string
		filtered             bool
		says                 string
	}{
		{name: "none"},
		{"of the pod", "{type: RuntimeDefault}", "{}", true, ""},
		{"of the container", "{type: Unconfined}", "{seccompProfile: {type: RuntimeDefault}}", true, ""},
		{"the container's wins", "{type: RuntimeDefault}", "{seccompProfile: {type: Unconfined}}", false, ""},
		{"privileged", "{type: RuntimeDefault}", "{privileged: true}", false, ""},
		{
			"of the node", "{type: Localhost, localhostProfile: a.json}", "{}", false,
			`failed to create containerd container: cannot load seccomp profile ` +
				`"/var/lib/kubelet/seccomp/a.json": open /var/lib/kubelet/seccomp/a.json: no such file or directory`,
		},
	} {
		text := "spec:\n  containers: [{name: c"
		if c.container != "" {
			text += ", securityContext: " + c.container
		}
		text += "}]\n"
		if c.pod != "" {
			text += "  securityContext: {seccompProfile: " + c.pod + "}\n"
		}
		got, err := translated(t, text)
		switch {
		case c.says != "":
			if err := refused(t, text); err == nil || err.Error() != c.says || !errors.Is(err, ErrCreate) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case (len(got.Containers[0].Seccomp) > 0) != c.filtered:
			t.Errorf("%s: a filter of %d bytes", c.name, len(got.Containers[0].Seccomp))
		}
	}
}
