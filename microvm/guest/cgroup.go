package guest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/microvm/wire"
)

const cpuPeriod = 100_000 // microseconds, the kernel's default

// groupOf returns the name of the group of all containers; "" if the pod has no limits of its own.
func groupOf(p *pod) string {
	if p.spec.Limits == (wire.Limits{}) {
		return ""
	}
	return "containers"
}

// makePodCgroup makes the group of all containers with the pod's limits.
func makePodCgroup(p *pod) error {
	if groupOf(p) == "" {
		return nil
	}
	dir, version1, err := p.host.makeGroups(groupOf(p))
	if err != nil {
		return err
	}
	if len(version1) > 0 {
		return limitVersion1(version1, p.spec.Limits)
	}
	return errors.Join(enableControllers(dir), setGroup(dir, limitValues(p.spec.Limits)))
}

// makeCgroup makes the run's own cgroup with the container's limits.
func (r *run) makeCgroup() (err error) {
	name := filepath.Join(groupOf(r.c.pod), fmt.Sprintf("%s.%d", r.c.spec.Name, r.attempt))
	if r.cgroup, r.version1, err = r.c.pod.host.makeGroups(name); err != nil {
		return err
	}
	return r.limit(r.c.current().Limits)
}

// makeGroups makes a group, also in the version 1 hierarchies. It returns its directories.
func (h *hostKernel) makeGroups(name string) (dir string, version1 map[string]string, err error) {
	dir, version1 = filepath.Join(cgroupDir, name), h.groups(name)
	for _, dir := range slices.Concat([]string{dir}, slices.Collect(maps.Values(version1))) {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return "", nil, fmt.Errorf("make a cgroup: %w", err)
		}
	}
	return dir, version1, nil
}

// limit sets the limits of the run's cgroup.
func (r *run) limit(l wire.Limits) error {
	if len(r.version1) > 0 {
		shares := map[string]string{"cpu.shares": strconv.FormatInt(cpuShares(l.CPUShareMilli), 10)}
		return errors.Join(setGroup(r.version1["cpu"], shares), limitVersion1(r.version1, l))
	}
	values := limitValues(l)
	// A container that requests no CPU gets the minimum weight, as with a kubelet. The kernel's default weight
	// corresponds to 2.6 CPUs.
	values["cpu.weight"] = strconv.FormatInt(cpuWeight(l.CPUShareMilli), 10)
	values["memory.oom.group"] = "0"
	if l.MemoryBytes > 0 {
		values["memory.oom.group"] = "1" // a container that has lost a process is useless
	}
	if r.c.pod.host == nil {
		values["pids.max"] = strconv.FormatUint(mostProcesses(), 10)
	}
	return setGroup(r.cgroup, values)
}

// limitValues are the files of a group that limit its memory and CPU, and their contents.
func limitValues(l wire.Limits) map[string]string {
	values := map[string]string{"cpu.max": fmt.Sprintf("max %d", cpuPeriod), "memory.max": "max"}
	if l.MemoryBytes > 0 {
		values["memory.max"] = strconv.FormatInt(l.MemoryBytes, 10)
	}
	if l.CPUMilli > 0 {
		values["cpu.max"] = fmt.Sprintf("%d %d", cpuQuota(l.CPUMilli), cpuPeriod)
	}
	return values
}

// mostProcesses is the limit on a container's processes and threads: the kernel's limit for a user, half of what its
// memory allows (kernel/fork.c, RLIMIT_NPROC of the first process). Without a limit, root's processes can use up all
// memory and stall the agent.
func mostProcesses() uint64 { return max(1, number("/proc/sys/kernel/threads-max")/2) }

// resize sets new limits. As with a kubelet, a memory limit below what the container uses is refused.
func (r *run) resize(l wire.Limits) error {
	_, memory := usage(r.cgroup, r.version1)
	if l.MemoryBytes > 0 && memory.Usage > uint64(l.MemoryBytes) {
		return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", r.c.spec.Name,
			l.MemoryBytes, memory.Usage)
	}
	return r.limit(l)
}

func setGroup(dir string, values map[string]string) error {
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			return fmt.Errorf("set %s to %s: %w", name, value, err)
		}
	}
	return nil
}

// cpuQuota returns a limit as CPU time per period, in microseconds. The kernel accepts no less than a millisecond.
func cpuQuota(milli int64) int64 { return max(1000, milli*cpuPeriod/1000) }

// cpuShares returns the shares of a request, as kubelet computes them.
func cpuShares(milli int64) int64 { return max(2, milli*1024/1000) }

// cpuWeight converts shares to a weight as container runtimes do: 1 + (shares-2)*9999/262142.
func cpuWeight(milli int64) int64 { return min(10_000, 1+(cpuShares(milli)-2)*9999/262_142) }

// killAll kills every process of the container.
func (r *run) killAll() {
	_ = os.WriteFile(filepath.Join(r.cgroup, "cgroup.kill"), []byte("1"), 0)
}

// outOfMemory reports whether the kernel killed a process of the container because it exceeded its memory limit.
func (r *run) outOfMemory() bool {
	if dir, ok := r.version1["memory"]; ok {
		return counter(filepath.Join(dir, "memory.oom_control"), "oom_kill") > 0
	}
	return counter(filepath.Join(r.cgroup, "memory.events"), "oom_kill") > 0
}

// counter returns the value in the line "name value" of a cgroup file; 0 if there is none.
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

// number returns the number in a cgroup file; 0 if there is none.
func number(file string) uint64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n
}
