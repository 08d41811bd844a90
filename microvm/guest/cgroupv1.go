package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nodeless/nodeless/microvm/wire"
)

// On a host with cgroup version 1 controllers, limits and usage are in version 1 hierarchies. A version 2 hierarchy
// without controllers exists as well; it is used to find and kill a container's processes.

// groups returns the directories of a group in the version 1 hierarchies, by controller. There are none with version
// 2, or if the agent has its own kernel.
func (h *hostKernel) groups(name string) map[string]string {
	if h == nil || len(h.version1) == 0 {
		return nil
	}
	out := map[string]string{}
	for controller, at := range h.version1 {
		out[controller] = filepath.Join(at, name)
	}
	return out
}

// limitVersion1 limits the memory and CPU of a group, given by its version 1 directories.
func limitVersion1(groups map[string]string, l wire.Limits) error {
	cpu := map[string]string{"cpu.cfs_quota_us": "-1"}
	memory := map[string]string{"memory.limit_in_bytes": "-1"}
	if l.CPUMilli > 0 {
		cpu["cpu.cfs_quota_us"] = strconv.FormatInt(cpuQuota(l.CPUMilli), 10)
	}
	if l.MemoryBytes > 0 {
		memory["memory.limit_in_bytes"] = strconv.FormatInt(l.MemoryBytes, 10)
	}
	return errors.Join(setGroup(groups["cpu"], cpu), setGroup(groups["memory"], memory))
}

// join moves a process into groups.
func join(groups map[string]string, pid int) error {
	for _, dir := range groups {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move a process into its cgroup: %w", err)
		}
	}
	return nil
}

// memoryFiles are the files and fields in which a version of cgroups reports memory usage.
type memoryFiles struct{ usage, rss, faults, majorFaults, inactive string }

var (
	memoryVersion1 = memoryFiles{
		"memory.usage_in_bytes", "total_rss", "total_pgfault", "total_pgmajfault", "total_inactive_file",
	}
	memoryVersion2 = memoryFiles{"memory.current", "anon", "pgfault", "pgmajfault", "inactive_file"}
)

// of returns the memory usage of a group.
func (f memoryFiles) of(dir string) wire.MemoryStats {
	stat := filepath.Join(dir, "memory.stat")
	m := wire.MemoryStats{
		Usage: number(filepath.Join(dir, f.usage)), RSS: counter(stat, f.rss), PageFaults: counter(stat, f.faults),
		MajorPageFaults: counter(stat, f.majorFaults),
	}
	m.WorkingSet = m.Usage - min(m.Usage, counter(stat, f.inactive))
	return m
}

// usage returns the CPU time and memory that a group uses; version1 are its directories in version 1 hierarchies.
func usage(dir string, version1 map[string]string) (cpuNanos uint64, m wire.MemoryStats) {
	if len(version1) > 0 {
		return number(filepath.Join(version1["cpuacct"], "cpuacct.usage")), memoryVersion1.of(version1["memory"])
	}
	return counter(filepath.Join(dir, "cpu.stat"), "usage_usec") * 1000, memoryVersion2.of(dir)
}

// usage returns what the pod's own groups use: CPU time since they were made, memory, processes.
func (h *hostKernel) usage() (cpuNanos uint64, m wire.MemoryStats, processes uint64) {
	cpuNanos, m = usage(cgroupDir, h.version1)
	if len(h.version1) > 0 {
		m.Total = number(filepath.Join(h.version1["memory"], "memory.limit_in_bytes"))
		processes = number(filepath.Join(h.version1["pids"], "pids.current"))
	} else {
		m.Total, processes = number(filepath.Join(cgroupDir, "memory.max")), number(filepath.Join(cgroupDir, "pids.current"))
	}
	m.Available = m.Total - min(m.Total, m.WorkingSet)
	return cpuNanos, m, processes
}
