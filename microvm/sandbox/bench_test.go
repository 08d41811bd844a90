package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// TestBench is run by `make bench-podvm`. It measures, and fails only for leaks. NODELESS_BENCH is the number of
// starts of each kind, NODELESS_BENCH_PODS the number of pods that come and go.
func TestBench(t *testing.T) {
	n, pods := count("NODELESS_BENCH"), count("NODELESS_BENCH_PODS")
	if n == 0 {
		t.Skip("a measurement: make bench-podvm")
	}
	q := driver(t)
	t.Logf("%s, %s, kernel %s, %d CPUs, load %s", q.Capabilities().Version, q.Capabilities().Accelerator,
		filepath.Base(q.Kernel.Image), shape.CPUs, read("/proc/loadavg"))
	h := open(t, Config{})
	benchStarts(t, h, n)
	benchDensity(t, h)
	files := openFiles(t)
	const rounds, together = 5, 10
	began := time.Now()
	for round := range rounds {
		for from := 0; from < pods; from += together {
			churn(t, h, round, from, min(pods, from+together))
		}
	}
	nothingLeft(t, h)
	if now := openFiles(t); len(now) > len(files) {
		t.Errorf("%d open files before, %d after: %q", len(files), len(now), now)
	}
	t.Logf("%d pods came and went %d times, %d at a time, in %s; nothing is left; load %s", pods, rounds, together,
		time.Since(began).Round(time.Second), read("/proc/loadavg"))
}

// benchStarts starts guests of each kind in turn, so that other load affects all of them equally. Beside the bare
// QEMU with the installed kernel there is one with the unpacked kernel and the CPU of pods, since what those save is
// not achieved inside the guest.
func benchStarts(t *testing.T, h *Host, n int) {
	t.Helper()
	q := driver(t)
	unprepared := shape
	unprepared.MemoryMiB++ // there is no template of this shape
	var floor, tuned, cold, warm []start
	for i := range n {
		floor = append(floor, bareBoot(t, "-accel", q.Capabilities().Accelerator, "-cpu", "max", "-kernel",
			q.Kernel.Image, "-append", q.KernelArguments()))
		tuned = append(tuned, bareBoot(t, q.CPUAndKernel()...))
		w := workload(fmt.Sprintf("cold-%d", i), wire.Pod{})
		w.Shape = unprepared
		cold = append(cold, firstOutput(t, h, w))
		warm = append(warm, firstOutput(t, h, workload(fmt.Sprintf("warm-%d", i), wire.Pod{})))
	}
	for _, kind := range []struct {
		name string
		took []start
	}{
		{"bare QEMU, same kernel, busybox says a word", floor},
		{"the same with the pods' CPU and unpacked kernel", tuned},
		{"pod to first stored output, cold", cold},
		{"pod to first stored output, from a template", warm},
	} {
		for _, of := range []struct {
			name string
			by   func(start) float64
		}{
			{"time", func(s start) float64 { return s.took.Seconds() }},
			{"CPU of the VMM", func(s start) float64 { return s.cpu.Seconds() }},
		} {
			var all []float64
			for _, s := range kind.took {
				all = append(all, of.by(s))
			}
			slices.Sort(all)
			t.Logf("%-47s %-14s median %6.2fs  p99 %6.2fs  beside the bare guests of its turn, median: %.2f and %.2f",
				kind.name, of.name,
				at(all, 50), at(all, 99), beside(kind.took, floor, of.by), beside(kind.took, tuned, of.by))
		}
	}
}

// start is a guest's start up to its first output: the time, and the CPU time of its VMM, which other load affects
// less.
type start struct{ took, cpu time.Duration }

func startOf(began time.Time, pid int) start {
	return start{time.Since(began), time.Duration(ticks(pid)) * time.Second / ticksPerSecond}
}

// beside returns the median ratio of each start to the other one of its round.
func beside(starts, others []start, by func(start) float64) float64 {
	var ratios []float64
	for i, s := range starts {
		ratios = append(ratios, by(s)/by(others[i]))
	}
	slices.Sort(ratios)
	return at(ratios, 50)
}

// at returns a percentile of a sorted list by the nearest rank.
func at[T any](sorted []T, percent int) T { return sorted[(len(sorted)*percent+99)/100-1] }

// idleFor is how long the CPU time of idle pods is measured.
const idleFor = 30 * time.Second

// benchDensity measures memory and CPU of 100 pods at once.
func benchDensity(t *testing.T, h *Host) {
	t.Helper()
	const pods = 100
	var pids []int
	for i := range pods {
		vm := run(t, h, workload(fmt.Sprintf("dense-%d", i),
			wire.Pod{Containers: []wire.Container{container("main", "sleep 1000")}}))
		pids = append(pids, vm.process.PID())
	}
	for _, vm := range h.VMs() {
		await(t, vm, "running", isRunning)
	}
	private, shared, before := 0, 0, 0
	for _, pid := range pids {
		private += rollup(pid, "Private_Dirty")
		shared += rollup(pid, "Pss")
		before += ticks(pid)
	}
	t.Logf("%d at once, guests of %d MiB: private dirty %d MiB each, proportional set %d MiB each", pods,
		shape.MemoryMiB, private/pods>>10, shared/pods>>10)
	time.Sleep(idleFor)
	used := -before
	for _, pid := range pids {
		used += ticks(pid)
	}
	t.Logf("%d at once that do nothing: %.2f %% of a CPU each", pods,
		float64(used)/ticksPerSecond/idleFor.Seconds()*100/pods)
	for _, vm := range h.VMs() {
		vm.Remove()
	}
}

// ticksPerSecond is the unit of /proc, as on every Linux (sysconf(_SC_CLK_TCK)).
const ticksPerSecond = 100

// ticks returns the CPU time that a process has used.
func ticks(pid int) int {
	text := read(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return user + system
}

func count(variable string) int {
	n, _ := strconv.Atoi(os.Getenv(variable))
	return n
}

// openFiles returns the files that this process has open.
func openFiles(t *testing.T) (files []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			files = append(files, to)
		}
	}
	return files
}

// churn runs pods to their end and removes them.
func churn(t *testing.T, h *Host, round, from, to int) {
	t.Helper()
	var vms []*VM
	for i := from; i < to; i++ {
		vms = append(vms, run(t, h,
			workload(fmt.Sprintf("churn-%d-%d", round, i),
				wire.Pod{Containers: []wire.Container{container("main", "echo done")}})))
	}
	for _, vm := range vms {
		if s := await(t, vm, "the end", ended); s.Failure != "" || s.Pod.Containers[0].Exit.Code != 0 {
			t.Errorf("%+v", s)
		}
		vm.Remove()
	}
}

// firstOutput measures the time from the request to run a pod to its first line in the host's log file.
func firstOutput(t *testing.T, h *Host, w Workload) start {
	t.Helper()
	w.Pod.Containers = []wire.Container{container("main", "echo first; sleep 1000")}
	began := time.Now()
	vm := run(t, h, w)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for {
		logged := vm.Logged()
		if log(t, vm, logOptions{Container: "main"}) != "" {
			break
		}
		select {
		case <-logged:
		case <-ctx.Done():
			t.Fatal("nothing was logged")
		}
	}
	took := startOf(began, vm.process.PID())
	vm.Remove()
	return took
}

func read(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// rollup returns a field of /proc/PID/smaps_rollup, in KiB.
func rollup(pid int, field string) int {
	for line := range strings.Lines(read(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) + "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field+":" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}
