package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/microvmtest"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

var shape = vmm.Shape{CPUs: 1, MemoryMiB: 160}

// shared is what all tests share: the probe, the template and the root disk are created once.
var shared struct {
	once   sync.Once
	driver *vmm.QEMU
	disk   string
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		hostToBeKilled(dir)
	}
	code := m.Run()
	if shared.driver != nil {
		_ = os.RemoveAll(shared.driver.Dir)
		_ = os.RemoveAll(shared.driver.TemplateDir)
	}
	os.Exit(code)
}

// driver returns the shared driver, with a template of shape.
func driver(t *testing.T) *vmm.QEMU {
	t.Helper()
	shared.once.Do(func() {
		q := microvmtest.QEMU(t)
		// The shared directories outlive this test.
		for _, dir := range []*string{&q.Dir, &q.TemplateDir} {
			kept, err := os.MkdirTemp(filepath.Dir(filepath.Dir(*dir)), "nodeless-host-test-")
			if err != nil {
				kept, err = os.MkdirTemp("", "nodeless-host-test-")
			}
			if err != nil {
				t.Fatal(err)
			}
			*dir = kept
		}
		disk, err := os.ReadFile(microvmtest.BusyboxDisk(t))
		if err != nil {
			t.Fatal(err)
		}
		shared.disk = filepath.Join(q.Dir, "busybox.ext4")
		if err := os.WriteFile(shared.disk, disk, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := q.Prepare(t.Context(), shape); err != nil {
			t.Fatal(err)
		}
		shared.driver = q
	})
	if shared.driver == nil {
		t.Skip("no microVMs here; the first test said why")
	}
	return shared.driver
}

// open opens a host, on the shared driver unless c has another. After the test it removes the VMs, and checks that
// nothing is left.
func open(t *testing.T, c Config) *Host {
	t.Helper()
	if c.Driver == nil {
		c.Driver = driver(t)
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	h, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var ids []string
		for _, vm := range h.VMs() {
			ids = append(ids, vm.ID())
			vm.Remove()
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, h, ids...)
	})
	return h
}

// withEachDriver runs a test in virtual machines and, as root, in namespaces.
func withEachDriver(t *testing.T, story func(t *testing.T, d vmm.Driver)) {
	t.Run("machines", func(t *testing.T) { story(t, driver(t)) })
	t.Run("namespaces", func(t *testing.T) { story(t, namespaces(t)) })
}

// namespaces returns a driver without virtual machines.
func namespaces(t *testing.T) *vmm.Namespaces {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	return &vmm.Namespaces{Agent: driver(t).Agent, Dir: t.TempDir()}
}

// inNamespaces reports whether a driver has no virtual machines.
func inNamespaces(d vmm.Driver) bool {
	_, ok := d.(*vmm.Namespaces)
	return ok
}

// nothingLeft checks for processes, state directories and open files of a host, and for cgroups of its VMs.
func nothingLeft(t *testing.T, h *Host, ids ...string) {
	t.Helper()
	noneOpen(t, h)
	if left, err := os.ReadDir(h.vmsPath()); err != nil || len(left) > 0 {
		t.Errorf("state directories left: %v %v", left, err)
	}
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if dir, err := os.Readlink(link); err == nil && strings.HasPrefix(dir, h.vmsPath()) {
			t.Errorf("process %s is left in %s", filepath.Dir(link), dir)
		}
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, command := range commands {
		if b, err := os.ReadFile(command); err == nil && strings.Contains(string(b), "\x00"+h.vmsPath()) {
			t.Errorf("process %s is left: %q", filepath.Dir(command), b)
		}
	}
	backing, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range backing {
		if b, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(b), h.vmsPath()) {
			t.Errorf("%s is left: %s", file, b)
		}
	}
	for _, id := range ids {
		for _, pattern := range []string{"/sys/fs/cgroup/*/nodeless/", "/sys/fs/cgroup/nodeless/"} {
			if groups, _ := filepath.Glob(pattern + id); len(groups) > 0 {
				t.Errorf("cgroups left: %v", groups)
			}
		}
	}
}

// noneOpen checks that this process has no file open in the state directories of a host's VMs.
func noneOpen(t *testing.T, h *Host) {
	t.Helper()
	for _, path := range openFiles(t) {
		if strings.HasPrefix(path, h.vmsPath()) {
			t.Errorf("%s is open still", path)
		}
	}
}

// rootOf returns the files of the disks of a container and its image volumes: all are the same image.
func rootOf(c wire.Container) map[string]string {
	out := map[string]string{c.Disk: shared.disk}
	for _, m := range c.Mounts {
		if m.Disk != "" {
			out[m.Disk] = shared.disk
		}
	}
	return out
}

// container returns a container that runs a shell script on the busybox disk.
func container(name, script string) wire.Container {
	return wire.Container{
		Name: name, Kind: wire.KindRegular, Disk: "root", Args: []string{"sh", "-c", script},
		Capabilities: []string{"CHOWN", "KILL", "SETUID", "SETGID"},
	}
}

// unique returns a VM name that is unique on this computer: it names the cgroup, and the same tests may run twice at
// once.
func unique(id string) string { return fmt.Sprintf("%s-%d", id, os.Getpid()) }

func workload(id string, pod wire.Pod) Workload {
	if pod.RestartPolicy == "" {
		pod.RestartPolicy = wire.RestartNever
	}
	if pod.Backoff == (wire.Backoff{}) {
		pod.Backoff = wire.Backoff{Initial: 100 * time.Millisecond, Max: time.Second, Reset: time.Hour}
	}
	if pod.GracePeriod == 0 {
		pod.GracePeriod = 20 * time.Second
	}
	pod.Hostname = id
	return Workload{ID: unique(id), Shape: shape, Roots: map[string]string{"root": shared.disk}, Pod: pod}
}

func run(t *testing.T, h *Host, w Workload) *VM {
	t.Helper()
	vm, err := h.Run(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// patience is how long an emulated guest may take on a busy computer.
const patience = 4 * time.Minute

// await waits for a wanted status.
func await(t *testing.T, vm *VM, what string, wanted func(Status) bool) Status {
	t.Helper()
	deadline := time.After(patience)
	for {
		s, changed := vm.Status()
		if wanted(s) {
			return s
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: not within %s: %+v", what, patience, s)
		}
		if s.Phase == Ended && !wanted(s) {
			t.Fatalf("%s: the VM ended: %+v", what, s)
		}
	}
}

func ended(s Status) bool { return s.Phase == Ended }

// logOptions choose what log returns.
type logOptions struct {
	Container string
	Previous  bool // the run before the last
	TailLines int  // 0: all
}

// log returns what a run of a container has logged.
func log(t *testing.T, vm *VM, o logOptions) string {
	t.Helper()
	run := 0
	s, _ := vm.Status()
	for _, c := range s.Pod.Containers {
		if c.Name == o.Container {
			run = c.Restarts
		}
	}
	if o.Previous {
		run--
	}
	path, err := vm.LogFile(o.Container, run)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range []string{path + oldSuffix, path} {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			if stored, ok := parseStored(line); ok {
				text.Write(stored.Text)
				if !stored.Partial {
					text.WriteByte('\n')
				}
			}
		}
	}
	lines := strings.SplitAfter(text.String(), "\n")
	if o.TailLines > 0 {
		lines = lines[max(0, len(lines)-1-o.TailLines):] // the last one is empty
	}
	return strings.Join(lines, "")
}

// awaitLog waits until a container has logged a line.
func awaitLog(t *testing.T, vm *VM, container, line string) {
	t.Helper()
	ctx := within(t)
	for {
		logged := vm.Logged()
		got := log(t, vm, logOptions{Container: container})
		if slices.Contains(strings.Split(got, "\n"), line) {
			return
		}
		select {
		case <-logged:
		case <-vm.Ended():
			t.Fatalf("container %s ended, and did not log %q but %q", container, line,
				log(t, vm, logOptions{Container: container}))
		case <-ctx.Done():
			t.Fatalf("container %s did not log %q within %s, but %q", container, line, patience, got)
		}
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// self returns a command that runs this test binary as another process.
func self(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	return cmd
}
