package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/podvm/wire"
)

// TestBench is `make bench-podvm`: it measures and judges nothing but leaks. NODELESS_BENCH is the number of starts of each kind.
func TestBench(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("NODELESS_BENCH"))
	if n == 0 {
		t.Skip("a measurement: make bench-podvm")
	}
	q := driver(t)
	t.Logf("%s, %s, kernel %s, %d CPUs, load %s", q.Capabilities().Version, q.Capabilities().Accelerator, filepath.Base(q.Kernel.Image), shape.CPUs, read("/proc/loadavg"))
	var floor, cold, warm []time.Duration
	for range n {
		floor = append(floor, bareBoot(t))
	}
	unprepared := shape
	unprepared.MemoryMiB++ // no template is of this shape
	h := open(t, Config{})
	for i := range n {
		w := workload(fmt.Sprintf("cold-%d", i), wire.Pod{})
		w.Shape = unprepared
		cold = append(cold, firstOutput(t, h, w))
		warm = append(warm, firstOutput(t, h, workload(fmt.Sprintf("warm-%d", i), wire.Pod{})))
	}
	report := func(name string, d []time.Duration) {
		slices.Sort(d)
		t.Logf("%-46s median %6.2fs  worst %6.2fs", name, d[len(d)/2].Seconds(), d[len(d)-1].Seconds())
	}
	report("bare QEMU, same kernel, busybox says a word", floor)
	report("pod to first stored output, cold", cold)
	report("pod to first stored output, from a template", warm)
	var pids []int
	for i := range 12 {
		vm := run(t, h, workload(fmt.Sprintf("dense-%d", i), wire.Pod{Containers: []wire.Container{container("main", "sleep 1000")}}))
		pids = append(pids, vm.machine.PID())
	}
	for _, vm := range h.VMs() {
		await(t, vm, "running", isRunning)
	}
	private, shared := 0, 0
	for _, pid := range pids {
		private += rollup(pid, "Private_Dirty")
		shared += rollup(pid, "Pss")
	}
	t.Logf("12 at once, guests of %d MiB: private dirty %d MiB each, proportional set %d MiB each", shape.MemoryMiB, private/12>>10, shared/12>>10)
	for _, vm := range h.VMs() {
		vm.Remove()
	}
	const rounds, together = 5, 10
	for round := range rounds {
		for from := 0; from < n; from += together {
			churn(t, h, round, from, min(n, from+together))
		}
	}
	nothingLeft(t, h)
	t.Logf("%d pods came and went %d times, %d at a time; nothing is left", n, rounds, together)
}

// churn runs pods to their end and removes them.
func churn(t *testing.T, h *Host, round, from, to int) {
	t.Helper()
	var vms []*VM
	for i := from; i < to; i++ {
		vms = append(vms, run(t, h, workload(fmt.Sprintf("churn-%d-%d", round, i), wire.Pod{Containers: []wire.Container{container("main", "echo done")}})))
	}
	for _, vm := range vms {
		if s := await(t, vm, "the end", ended); s.Failure != "" || s.Pod.Containers[0].Exit.Code != 0 {
			t.Errorf("%+v", s)
		}
		vm.Remove()
	}
}

// firstOutput is the time from the request to run a pod to its first line in the host's log file.
func firstOutput(t *testing.T, h *Host, w Workload) time.Duration {
	t.Helper()
	w.Pod.Containers = []wire.Container{container("main", "echo first; sleep 1000")}
	began := time.Now()
	vm := run(t, h, w)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var took time.Duration
	err := vm.Logs(ctx, LogOptions{Container: "main", Follow: true}, writerFunc(func(p []byte) (int, error) {
		took = time.Since(began)
		cancel()
		return len(p), nil
	}))
	if err != nil || took == 0 {
		t.Fatal("nothing was logged", err)
	}
	vm.Remove()
	return took
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// bareBoot is the floor: the same VMM, kernel and memory with a static busybox as the whole guest, from the start of the process to its first word.
func bareBoot(t *testing.T) time.Duration {
	t.Helper()
	dir := t.TempDir()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`set -e; cd %s; mkdir -p root/bin root/dev; cp %s root/bin/busybox; mknod root/dev/console c 5 1
printf '#!/bin/busybox sh\necho first\nexec /bin/busybox sleep 1000\n' > root/init; chmod +x root/init
cd root; %s find . | %s cpio -o -H newc > ../initrd 2>/dev/null`, dir, busybox, busybox, busybox)
	if said, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, said)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	q := driver(t)
	began := time.Now()
	cmd := exec.Command(q.Binary, "-M", "microvm,isa-serial=on", "-accel", q.Capabilities().Accelerator, "-cpu", "max", "-m", strconv.Itoa(shape.MemoryMiB),
		"-kernel", q.Kernel.Image, "-initrd", filepath.Join(dir, "initrd"), "-append", q.KernelArguments(), "-nodefaults", "-no-user-config", "-no-reboot",
		"-display", "none", "-chardev", "socket,id=c,path="+filepath.Join(dir, "console"), "-serial", "chardev:c")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var said []byte
	for buf := make([]byte, 4096); !strings.Contains(string(said), "first"); {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		said = append(said, buf[:n]...)
	}
	return time.Since(began)
}

func read(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// rollup is a field of /proc/PID/smaps_rollup, in KiB.
func rollup(pid int, field string) int {
	for line := range strings.Lines(read(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) + "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field+":" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}
