package vmm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// group is a cgroup of a machine: one directory with cgroup v2, one for each controller with v1, none where they cannot be written.
type group struct {
	dirs []string
	v2   bool
}

// overheadMiB is what a VMM may use beyond the guest's memory: QEMU's own, and the template's pages it is the first to touch.
const overheadMiB = 384

// makeGroup makes a machine's cgroup with limits: what a guest does to its VMM stays within them.
func makeGroup(id string, shape Shape) group {
	memory := strconv.Itoa((shape.MemoryMiB + overheadMiB) << 20)
	cpu := strconv.Itoa(shape.CPUs*100_000 + 50_000) // half a CPU for the VMM's own thread
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		parent := filepath.Join(cgroupRoot, "nodeless")
		dir := filepath.Join(parent, id)
		if os.MkdirAll(parent, 0o755) != nil {
			return group{}
		}
		for _, d := range []string{cgroupRoot, parent} {
			_ = os.WriteFile(filepath.Join(d, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0) // what is missing is not limited
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return group{}
		}
		_ = os.WriteFile(filepath.Join(dir, "memory.max"), []byte(memory), 0)
		_ = os.WriteFile(filepath.Join(dir, "cpu.max"), []byte(cpu+" 100000"), 0)
		_ = os.WriteFile(filepath.Join(dir, "pids.max"), []byte("256"), 0)
		return group{[]string{dir}, true}
	}
	var g group
	for controller, limit := range map[string][2]string{
		"memory": {"memory.limit_in_bytes", memory}, "cpu": {"cpu.cfs_quota_us", cpu}, "pids": {"pids.max", "256"},
	} {
		dir := filepath.Join(cgroupRoot, controller, "nodeless", id)
		if _, err := os.Stat(filepath.Join(cgroupRoot, controller, "cgroup.procs")); err != nil {
			continue
		}
		if os.MkdirAll(dir, 0o755) != nil {
			continue
		}
		_ = os.WriteFile(filepath.Join(dir, limit[0]), []byte(limit[1]), 0)
		g.dirs = append(g.dirs, dir)
	}
	return g
}

// findGroup is the cgroup of a machine that an earlier process made.
func findGroup(id string) group {
	v2 := filepath.Join(cgroupRoot, "nodeless", id)
	if isDir(v2) {
		return group{[]string{v2}, true}
	}
	dirs, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "nodeless", id))
	return group{dirs: dirs}
}

// add moves a process into the group.
func (g group) add(pid int) error {
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move the machine into its cgroup: %w", err)
		}
	}
	return nil
}

// remove takes the group away, with those that were made below it, once its processes have gone, which takes the kernel a moment.
func (g group) remove() {
	for _, dir := range g.dirs {
		for range 100 {
			if err := removeGroup(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// removeGroup removes a cgroup and those below it; their files are the kernel's.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return os.Remove(dir)
}
