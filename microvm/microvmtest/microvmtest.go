// Package microvmtest provides what tests need to run real microVMs: the guest agent built from source, a guest kernel
// and a root disk.
package microvmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/vmm"
)

// requireVM is an environment variable that makes tests fail, instead of being skipped, on a host that cannot run
// microVMs. CI sets it.
const requireVM = "NODELESS_REQUIRE_VM"

// missing skips the test, or fails it where microVMs are required.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireVM) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// agent builds the guest's programs. Go's build cache makes repeated builds cheap.
func agent(t testing.TB) vmm.Agent {
	t.Helper()
	return vmm.Agent{Init: program(t, "guest/agent"), Enter: program(t, "guest/enter/main")}
}

func program(t testing.TB, name string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out,
		"github.com/nodeless/nodeless/microvm/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s for the guest: %v\n%s", name, err, said)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// QEMU returns a driver with its own directories, which are removed after the test. It skips the test if there is no
// QEMU or no guest kernel.
func QEMU(t testing.TB) *vmm.QEMU {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		missing(t, "qemu-system-x86_64 is not installed: run scripts/test-deps")
	}
	kernel, err := vmm.FindKernel(os.Getenv("NODELESS_GUEST_KERNEL"))
	if err != nil {
		missing(t, "%v", err)
	}
	memory, err := os.MkdirTemp("/dev/shm", "nodeless-test-")
	if err != nil {
		memory = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(memory) })
	return &vmm.QEMU{
		Kernel: kernel, Agent: agent(t), Dir: t.TempDir(), TemplateDir: memory,
		Accelerator: os.Getenv("NODELESS_VM_ACCELERATOR"),
	}
}

// BusyboxDisk makes an ext4 root disk with Debian's static busybox, and returns its path. It needs mke2fs (e2fsprogs).
func BusyboxDisk(t testing.TB) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		missing(t, "busybox is not installed: run scripts/test-deps")
	}
	mke2fs := "/sbin/mke2fs"
	if _, err := os.Stat(mke2fs); err != nil {
		missing(t, "mke2fs is not installed: run scripts/test-deps")
	}
	root := filepath.Join(t.TempDir(), "root")
	for _, dir := range []string{"bin", "etc", "home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"bin/busybox": string(program),
		"etc/passwd":  "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/sh\n",
		"etc/group":   "root:x:0:\nnogroup:x:65534:\nextra:x:77:nobody\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	disk := filepath.Join(t.TempDir(), "busybox.ext4")
	if said, err := exec.Command(mke2fs, "-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", root,
		disk, "16M").CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, said)
	}
	return disk
}
