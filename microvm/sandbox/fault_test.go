package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

func isRunning(s Status) bool {
	return len(s.Pod.Containers) == 1 && s.Pod.Containers[0].State == wire.Running
}

// Whatever kills a VM, the pod's status says what happened, and nothing is left.
func TestVMFailures(t *testing.T) {
	privileged := container("main", "while :; do sleep 1; done")
	privileged.Privileged = true
	inside := func(script string) func(vm *VM) {
		return func(vm *VM) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, _ = vm.Exec(ctx, "main", []string{"sh", "-c", script}, false, Streams{})
		}
	}
	const soon = 5 * time.Second // for VMs that are made to hang; the default for others, since a busy host may be slow
	for _, fault := range []struct {
		name, says string
		limit      time.Duration
		strike     func(vm *VM)
	}{
		{"killed", "the virtual machine ended", 0, func(vm *VM) { _ = unix.Kill(vm.process.PID(), unix.SIGKILL) }},
		{"panic", "sysrq triggered crash", 0, inside("echo c > /proc/sysrq-trigger")},
		{"reboot", "the virtual machine ended", 0, inside("echo b > /proc/sysrq-trigger")},
		// The first process ignores every signal that would stop it, but not the kernel's freezer. The VMM and the guest's
		// kernel continue.
		{
			"agent", "taken for hung", soon,
			inside("mkdir /sys/fs/cgroup/ice; cd /sys/fs/cgroup/ice; echo 1 > cgroup.freeze; echo 1 > cgroup.procs"),
		},
		{"hang", "taken for hung", soon, func(vm *VM) { _ = unix.Kill(vm.process.PID(), unix.SIGSTOP) }},
		// It hangs while it is sent more than the connection holds.
		{"deaf", "taken for hung", soon, func(vm *VM) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			stdin := endless{1 << 20, func() { _ = unix.Kill(vm.process.PID(), unix.SIGSTOP) }}
			_, _ = vm.Exec(ctx, "main", []string{"sh", "-c", "cat > /dev/null"}, false, Streams{Stdin: &stdin})
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			vm := running(t, Config{Driver: driver(t), HangLimit: fault.limit},
				workload(fault.name, wire.Pod{HostPID: true, Containers: []wire.Container{privileged}}))
			go fault.strike(vm)
			s := await(t, vm, "the end", ended)
			exit := s.Pod.Containers[0].Exit
			if !strings.Contains(s.Failure, fault.says) || exit == nil || exit.Reason != "ContainerStatusUnknown" ||
				exit.Code != 137 {
				t.Errorf("status %+v, exit %+v", s, exit)
			}
			vm.Remove()
		})
	}
}

// neverBoots is a driver whose VMs take connections, but whose guests do nothing after a line on their console.
type neverBoots struct{ *vmm.QEMU }

func (d neverBoots) Start(ctx context.Context, spec vmm.Spec) (*vmm.Process, bool, error) {
	p, fromTemplate, err := d.QEMU.Start(ctx, spec)
	if err == nil {
		err = errors.Join(unix.Kill(p.PID(), unix.SIGSTOP),
			os.WriteFile(filepath.Join(spec.Dir, "console.log"), []byte("waiting for the root disk\n"), 0o600))
	}
	return p, fromTemplate, err
}

// A guest that never boots is ended, and the status says how far it came.
func TestAGuestNeverBoots(t *testing.T) {
	h := open(t, Config{Driver: neverBoots{driver(t)}, BootLimit: time.Second, HangLimit: time.Second})
	vm := run(t, h, workload("stuck", wire.Pod{Containers: []wire.Container{container("main", "true")}}))
	s := await(t, vm, "the end", ended)
	for _, want := range []string{"agent does not answer", `the end of its console: "`, "waiting for the root disk"} {
		if !strings.Contains(s.Failure, want) {
			t.Errorf("%q does not say %q", s.Failure, want)
		}
	}
}

// running returns a VM that runs. A busy computer may let one exceed a short HangLimit before anything happens to it:
// then there is another one.
func running(t *testing.T, c Config, w Workload) *VM {
	t.Helper()
	if c.HangLimit == 0 {
		vm := run(t, open(t, c), w)
		await(t, vm, "running", isRunning)
		return vm
	}
	for tries := 1; ; tries++ {
		vm, err := adopted(t, c, w)
		if err == nil {
			return vm
		}
		s := await(t, vm, "the end", ended)
		if slow := strings.Contains(s.Failure, "taken for hung") || strings.Contains(s.Failure, "does not answer"); !slow ||
			tries == 3 {
			t.Fatalf("%v; status %+v", err, s)
		}
		vm.Remove()
	}
}

// adopted returns a VM that a host has adopted from another one: a HangLimit must not apply while the VM starts. The
// error says why the VM cannot be used.
func adopted(t *testing.T, c Config, w Workload) (*VM, error) {
	t.Helper()
	c.Dir = t.TempDir()
	starts, err := Open(Config{Driver: c.Driver, Dir: c.Dir})
	if err != nil {
		t.Fatal(err)
	}
	await(t, run(t, starts, w), "running", isRunning)
	if err := starts.Close(); err != nil {
		t.Fatal(err)
	}
	vm, err := open(t, c).VM(w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s := await(t, vm, "adopted", func(s Status) bool { return isRunning(s) || ended(s) }); ended(s) {
		return vm, errors.New("it has ended")
	}
	code, err := vm.Exec(within(t), "main", []string{"true"}, false, Streams{})
	if err == nil && code != 0 {
		t.Fatalf("true exits with %d", code)
	}
	return vm, err
}

// endless is an input without end. It calls then once, after a number of bytes.
type endless struct {
	bytes int
	then  func()
}

func (e *endless) Read(b []byte) (int, error) {
	if before := e.bytes; before > 0 {
		if e.bytes -= len(b); e.bytes <= 0 {
			e.then()
		}
	}
	return len(b), nil
}

// The host's disk is full: a guest's writes fail, the guest and its pod keep running, and its logs are stored when
// there is space again.
func TestHostDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	h := open(t, Config{Dir: filepath.Join(dir, "host")})
	w := workload("full", wire.Pod{Containers: []wire.Container{container("main",
		"dd if=/dev/zero of=/fill bs=1M count=64 conv=fsync 2>/dev/null || echo refused; echo alive")}})
	w.ScratchBytes = 1 << 30
	vm := run(t, h, w)
	await(t, vm, "the container's end", func(s Status) bool { return s.Pod.Done })
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if s := await(t, vm, "the pod's end", ended); s.Failure != "" || s.Pod.Containers[0].Exit.Code != 0 {
		t.Errorf("%+v", s)
	}
	if got := log(t, vm, logOptions{Container: "main"}); got != "refused\nalive\n" {
		t.Errorf("it logged %q", got)
	}
}

// childDir in the environment turns the test binary into a host process that runs one pod and waits to be killed.
const childDir = "NODELESS_TEST_HOST"

// given is the input of the host process that will be killed.
type given struct {
	QEMU       *vmm.QEMU
	Namespaces *vmm.Namespaces // instead of QEMU
	Work       Workload
}

func (g given) driver() vmm.Driver {
	if g.Namespaces != nil {
		return g.Namespaces
	}
	return g.QEMU
}

func hostToBeKilled(dir string) {
	var g given
	b, err := os.ReadFile(filepath.Join(dir, "given.json"))
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err == nil {
		err = g.driver().Prepare(context.Background(), g.Work.Shape)
	}
	var h *Host
	if err == nil {
		h, err = Open(Config{Dir: filepath.Join(dir, "host"), Driver: g.driver()})
	}
	if err == nil {
		_, err = h.Run(context.Background(), g.Work)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// A host process is killed while a pod logs; the next one adopts the pod and has every line once.
func TestHostProcessKilled(t *testing.T) {
	q := driver(t)
	t.Run("machines", func(t *testing.T) {
		aHostProcessIsKilled(t, given{QEMU: &vmm.QEMU{
			Binary: q.Binary, Kernel: q.Kernel, Agent: q.Agent, Dir: q.Dir, TemplateDir: q.TemplateDir,
			Accelerator: q.Capabilities().Accelerator,
		}})
	})
	t.Run("namespaces", func(t *testing.T) { aHostProcessIsKilled(t, given{Namespaces: namespaces(t)}) })
}

func aHostProcessIsKilled(t *testing.T, g given) {
	dir := t.TempDir()
	main := container("main", `trap 'exit 0' TERM; i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done`)
	g.Work = workload("survivor", wire.Pod{Containers: []wire.Container{main}})
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "given.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	child := self(t, childDir+"="+dir)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "host", "machines", unique("survivor"), "logs", "main", "0.log"))
		return strings.Count(string(b), "\n")
	}
	for deadline := time.Now().Add(patience); lines() < 20 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := Open(Config{Dir: filepath.Join(dir, "host"), Driver: g.driver()}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("a second host in the same directory: %v", err)
	}
	_ = child.Process.Kill()
	_, _ = child.Process.Wait()
	// As left by a process that was killed just after it had begun to start a VM.
	if err := os.MkdirAll(filepath.Join(dir, "host", "machines", "unborn"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := lines()
	h := open(t, Config{Dir: filepath.Join(dir, "host"), Driver: g.driver()})
	vm, err := h.VM(unique("survivor"))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.VMs()) != 1 {
		t.Errorf("%d VMs after the restart", len(h.VMs()))
	}
	await(t, vm, "taken up again", isRunning)
	awaitLog(t, vm, "main", strconv.Itoa(before+20))
	if err := vm.Stop(within(t), -1); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(log(t, vm, logOptions{Container: "main"}))
	if len(got) < before+20 {
		t.Fatalf("%d lines, %d before the kill", len(got), before)
	}
	for i, line := range got {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d is %q: lines were lost or doubled", i+1, line)
		}
	}
	if s, _ := vm.Status(); s.Pod.Containers[0].Exit.Code != 0 || s.Pod.Containers[0].Restarts != 0 {
		t.Errorf("%+v", s)
	}
}
