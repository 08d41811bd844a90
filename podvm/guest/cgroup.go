package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const cpuPeriod = 100_000 // microseconds, the kernel's default

// makeCgroup makes the run's own group with the container's limits.
func (r *run) makeCgroup() error {
	dir := filepath.Join(cgroupDir, fmt.Sprintf("%s.%d", r.c.spec.Name, r.attempt))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	r.cgroup = dir
	// Who asks for no CPU has the least weight, as with kubelet: the kernel's default is that of 2.6 CPUs.
	values := map[string]string{"cpu.weight": strconv.FormatInt(cpuWeight(r.c.spec.CPUShareMilli), 10)}
	if b := r.c.spec.MemoryBytes; b > 0 {
		values["memory.max"] = strconv.FormatInt(b, 10)
		values["memory.oom.group"] = "1" // a container without one of its processes is no container
	}
	if m := r.c.spec.CPUMilli; m > 0 {
		values["cpu.max"] = fmt.Sprintf("%d %d", max(1000, m*cpuPeriod/1000), cpuPeriod)
	}
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			return fmt.Errorf("set %s to %s: %w", name, value, err)
		}
	}
	return nil
}

// cpuWeight of a request: shares as kubelet computes them, and the weight container runtimes make of shares (1 + (shares-2)*9999/262142).
func cpuWeight(milli int64) int64 {
	shares := max(2, milli*1024/1000)
	return min(10_000, 1+(shares-2)*9999/262_142)
}

// killAll kills every process of the container.
func (r *run) killAll() {
	_ = os.WriteFile(filepath.Join(r.cgroup, "cgroup.kill"), []byte("1"), 0)
}

// outOfMemory reports whether the kernel killed a process of the container for want of memory.
func (r *run) outOfMemory() bool {
	return counter(filepath.Join(r.cgroup, "memory.events"), "oom_kill") > 0
}

// counter reads the line "name value" of a cgroup file; 0 when there is none.
func counter(file, name string) uint64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// number reads a cgroup file that holds one number; 0 when there is none.
func number(file string) uint64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n
}
