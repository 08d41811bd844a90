package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nodeless/nodeless/microvm/wire"
)

// On a host whose controllers are in cgroup version 1, limits and figures are in its hierarchies; version 2 is there
// beside them without controllers, and finds and kills a container's processes.

// groups are the directories of a group of this name in the hierarchies of version 1, by their controllers; none with
// version 2, or a kernel of one's own.
func (g *ground) groups(name string) map[string]string {
	if g == nil || len(g.version1) == 0 {
		return nil
	}
	out := map[string]string{}
	for controller, at := range g.version1 {
		out[controller] = filepath.Join(at, name)
	}
	return out
}

// limitVersion1 makes the run's groups of version 1, with its limits.
func (r *run) limitVersion1() error {
	for _, dir := range r.version1 {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make a cgroup: %w", err)
		}
	}
	cpu, memory := map[string]string{"cpu.shares": strconv.FormatInt(cpuShares(r.c.spec.CPUShareMilli), 10)},
		map[string]string{}
	if m := r.c.spec.CPUMilli; m > 0 {
		cpu["cpu.cfs_quota_us"] = strconv.FormatInt(cpuQuota(m), 10)
	}
	if b := r.c.spec.MemoryBytes; b > 0 {
		memory["memory.limit_in_bytes"] = strconv.FormatInt(b, 10)
	}
	return errors.Join(setGroup(r.version1["cpu"], cpu), setGroup(r.version1["memory"], memory))
}

// join moves a process into the groups.
func join(groups map[string]string, pid int) error {
	for _, dir := range groups {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move a process into its cgroup: %w", err)
		}
	}
	return nil
}

// memoryFiles are where a version of cgroups tells what a group uses.
type memoryFiles struct{ usage, rss, faults, majorFaults, inactive string }

var (
	memoryVersion1 = memoryFiles{
		"memory.usage_in_bytes", "total_rss", "total_pgfault", "total_pgmajfault",
		"total_inactive_file",
	}
	memoryVersion2 = memoryFiles{"memory.current", "anon", "pgfault", "pgmajfault", "inactive_file"}
)

// of a group.
func (f memoryFiles) of(dir string) wire.MemoryStats {
	stat := filepath.Join(dir, "memory.stat")
	m := wire.MemoryStats{
		Usage: number(filepath.Join(dir, f.usage)), RSS: counter(stat, f.rss), PageFaults: counter(stat, f.faults),
		MajorPageFaults: counter(stat, f.majorFaults),
	}
	m.WorkingSet = m.Usage - min(m.Usage, counter(stat, f.inactive))
	return m
}

// usage is what the machine's own groups use: CPU time since they were made, memory, processes.
func (g *ground) usage() (cpuNanos uint64, m wire.MemoryStats, processes uint64) {
	if len(g.version1) > 0 {
		cpuNanos, m = number(filepath.Join(g.version1["cpuacct"], "cpuacct.usage")), memoryVersion1.of(g.version1["memory"])
		m.Total, processes = number(filepath.Join(g.version1["memory"], "memory.limit_in_bytes")),
			number(filepath.Join(g.version1["pids"], "pids.current"))
	} else {
		cpuNanos, m = counter(filepath.Join(cgroupDir, "cpu.stat"), "usage_usec")*1000, memoryVersion2.of(cgroupDir)
		m.Total, processes = number(filepath.Join(cgroupDir, "memory.max")), number(filepath.Join(cgroupDir, "pids.current"))
	}
	m.Available = m.Total - min(m.Total, m.WorkingSet)
	return cpuNanos, m, processes
}
