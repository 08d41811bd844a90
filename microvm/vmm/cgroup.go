package vmm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where cgroups are mounted. Tests change it.
var cgroupRoot = "/sys/fs/cgroup"

// group is the cgroup of a VM: one directory under cgroup v2, one per hierarchy under v1, and none where cgroups are
// not writable.
type group struct {
	dirs []string
	v2   bool
}

// limits are the limits of a group.
type limits struct {
	memoryMiB, processes int
	cpu                  int // microseconds of each 100 milliseconds
}

// controllers are the controllers that limit a VM.
var controllers = []string{"cpu", "memory", "pids"}

// files returns, for each controller, the files that hold the limits and their values.
func (l limits) files(v2 bool) map[string]map[string]string {
	memory, cpu := strconv.Itoa(l.memoryMiB<<20), strconv.Itoa(l.cpu)
	weightFile, weight := cpuWeight(l.cpu/100_000, v2)
	files := map[string]map[string]string{
		"memory": {"memory.limit_in_bytes": memory}, "cpu": {"cpu.cfs_quota_us": cpu, weightFile: weight},
		"pids": {"pids.max": strconv.Itoa(l.processes)},
	}
	if v2 {
		files["memory"] = map[string]string{"memory.max": memory}
		files["cpu"] = map[string]string{"cpu.max": cpu + " 100000", weightFile: weight}
	}
	return files
}

// cpuWeight returns the file and the value that make a group compete for CPUs like as many busy processes as cpus.
func cpuWeight(cpus int, v2 bool) (file, value string) {
	if v2 {
		return "cpu.weight", strconv.Itoa(min(100*cpus, 10_000))
	}
	return "cpu.shares", strconv.Itoa(min(1024*cpus, 1<<18))
}

// makeGroup creates a VM's cgroup in every hierarchy that limits it. version1 lists the hierarchies of version 1,
// each as its controllers. On error, g is the part of the group that was created.
func makeGroup(id string, l limits) (g group, version1 []string, err error) {
	root, failed := version2Root()
	g.v2 = root == cgroupRoot
	hierarchies := []hierarchy{{root, controllers}}
	if g.v2 {
		failed = enableControllers(root)
	} else {
		hierarchies, err = version1Hierarchies()
		if failed = errors.Join(failed, err); err == nil {
			failed = nil // version 1 limits it without version 2
		}
		for _, h := range hierarchies {
			version1 = append(version1, strings.Join(h.controllers, ","))
		}
		if root != "" {
			hierarchies = append(hierarchies, hierarchy{path: root})
		}
	}
	for _, h := range hierarchies {
		all := filepath.Join(h.path, "nodeless")
		failed = errors.Join(failed, setTotalWeight(all, h.controllers, g.v2),
			g.make(filepath.Join(all, id), h.controllers, l))
	}
	if failed != nil {
		failed = fmt.Errorf("make the cgroup: %w", failed)
	}
	return g, version1, failed
}

// setTotalWeight gives the group of all microVMs the weight of all CPUs, as a kubelet does for its pods. By default,
// they would together get only as much as one busy process of the host.
func setTotalWeight(dir string, controllers []string, v2 bool) error {
	if !slices.Contains(controllers, "cpu") {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, weight := cpuWeight(runtime.NumCPU(), v2)
	return os.WriteFile(filepath.Join(dir, file), []byte(weight), 0)
}

// make creates a directory of the group and sets its limits.
func (g *group) make(dir string, controllers []string, l limits) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	g.dirs = append(g.dirs, dir)
	var failed []error
	for _, c := range controllers {
		for name, value := range l.files(g.v2)[c] {
			failed = append(failed, os.WriteFile(filepath.Join(dir, name), []byte(value), 0))
		}
	}
	return errors.Join(failed...)
}

// has reports whether the kernel provides a file in the group.
func (g group) has(file string) bool {
	return slices.ContainsFunc(g.dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, file))
		return err == nil
	})
}

// enableControllers enables, under cgroup v2, the controllers that the VMs' groups need.
func enableControllers(root string) error {
	var failed []error
	for _, dir := range []string{root, filepath.Join(root, "nodeless")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return err
		}
		for _, c := range controllers {
			switch {
			case slices.Contains(strings.Fields(string(available)), c):
				failed = append(failed, enableController(c, dir))
			case dir == root: // only once: the error would be the same below root
				failed = append(failed, fmt.Errorf("the kernel does not provide the cgroup controller %s: enable it at boot "+
					"(for example with cgroup_enable=memory)", c))
			}
		}
	}
	return errors.Join(failed...)
}

// enableController enables a controller for the child groups of a group.
func enableController(controller, dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: the group itself has processes, as in a container; move them into a group below it", err)
	}
	if err != nil {
		return fmt.Errorf("enable the cgroup controller %s: %w", controller, err)
	}
	return nil
}

// version2Root returns where cgroup v2 is mounted, alone or alongside the hierarchies of version 1.
func version2Root() (string, error) {
	for _, dir := range []string{cgroupRoot, filepath.Join(cgroupRoot, "unified")} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("cgroup v2 is mounted neither at /sys/fs/cgroup nor at /sys/fs/cgroup/unified: " +
		"mount it (mount -t cgroup2 none /sys/fs/cgroup/unified)")
}

// findGroup returns the cgroup that an earlier process created for a VM.
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
			return fmt.Errorf("move the VM into its cgroup: %w", err)
		}
	}
	return nil
}

// remove removes the group and its descendants. Its processes have ended, but the kernel takes a moment to notice.
func (g group) remove() {
	for _, dir := range g.dirs {
		for range 100 {
			if err := removeGroup(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the kernel tells nobody
		}
	}
}

// removeGroup removes a cgroup and its descendants. The files in them belong to the kernel and need no removal.
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

// hierarchy is a version 1 hierarchy, or the version 2 one, and the controllers in it that limit a VM.
type hierarchy struct {
	path        string
	controllers []string
}

// version1Hierarchies returns the version 1 hierarchies that limit a VM or account for its usage. All are required.
func version1Hierarchies() ([]hierarchy, error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	missing := append([]string{"cpuacct"}, controllers...)
	var out []hierarchy
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // device, path, type, options
		if len(f) < 4 || f[2] != "cgroup" || !strings.HasPrefix(f[1], cgroupRoot+"/") {
			continue
		}
		h := hierarchy{path: f[1]}
		for _, option := range strings.Split(f[3], ",") {
			if i := slices.Index(missing, option); i >= 0 {
				h.controllers = append(h.controllers, option)
				missing = slices.Delete(missing, i, i+1)
			}
		}
		if len(h.controllers) > 0 {
			out = append(out, h)
		}
	}
	if len(missing) > 0 {
		return out, fmt.Errorf("no hierarchy below %s has the cgroup controllers %s", cgroupRoot, strings.Join(missing, ", "))
	}
	return out, nil
}
