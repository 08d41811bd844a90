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

const cgroupRoot = "/sys/fs/cgroup"

// group is a cgroup of a machine: one directory with cgroup v2, one for each controller with v1, none where they
// cannot be written.
type group struct {
	dirs []string
	v2   bool
}

// bounds of a group.
type bounds struct {
	memoryMiB, processes int
	cpu                  int // microseconds of each 100 milliseconds
}

// files are what holds the bounds, by the controller.
func (b bounds) files(v2 bool) map[string]map[string]string {
	memory, cpu, processes := strconv.Itoa(b.memoryMiB<<20), strconv.Itoa(b.cpu), strconv.Itoa(b.processes)
	name, weight := cpuWeight(b.cpu/100_000, v2)
	if v2 {
		return map[string]map[string]string{
			"memory": {"memory.max": memory}, "cpu": {"cpu.max": cpu + " 100000", name: weight},
			"pids": {"pids.max": processes},
		}
	}
	return map[string]map[string]string{
		"memory": {"memory.limit_in_bytes": memory}, "cpu": {"cpu.cfs_quota_us": cpu, name: weight},
		"pids": {"pids.max": processes},
	}
}

// cpuWeight is the file and the value by which a group competes for CPUs like so many busy processes.
func cpuWeight(cpus int, v2 bool) (file, value string) {
	if v2 {
		return "cpu.weight", strconv.Itoa(min(100*cpus, 10_000))
	}
	return "cpu.shares", strconv.Itoa(min(1024*cpus, 1<<18))
}

// makeGroup makes a machine's cgroup in every hierarchy that bounds it, and gives those of version 1, each by its
// controllers. It makes what it can also when it fails.
func makeGroup(id string, b bounds) (g group, version1 []string, err error) {
	root, failed := version2Root()
	g.v2 = root == cgroupRoot
	where := []hierarchy{{at: root, controllers: []string{"cpu", "memory", "pids"}}}
	if g.v2 {
		failed = handDown(root)
	} else {
		all, err := version1Hierarchies()
		failed = errors.Join(failed, err)
		for _, h := range all {
			version1 = append(version1, strings.Join(h.controllers, ","))
		}
		if where = all; root != "" {
			where = append(all, hierarchy{at: root})
		}
	}
	for _, h := range where {
		failed = errors.Join(failed, weighAll(filepath.Join(h.at, "nodeless"), h.controllers, g.v2),
			g.make(filepath.Join(h.at, "nodeless", id), h.controllers, b))
	}
	if failed != nil {
		failed = fmt.Errorf("make the cgroup: %w", failed)
	}
	return g, version1, failed
}

// weighAll gives the group of all microVMs the weight of all CPUs, as a kubelet does for its pods. By default they
// would together get as much as a single busy process of the host.
func weighAll(dir string, controllers []string, v2 bool) error {
	if !slices.Contains(controllers, "cpu") {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, weight := cpuWeight(runtime.NumCPU(), v2)
	return os.WriteFile(filepath.Join(dir, file), []byte(weight), 0)
}

// make makes a directory of the group with its bounds.
func (g *group) make(dir string, controllers []string, b bounds) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	g.dirs = append(g.dirs, dir)
	var failed []error
	for _, c := range controllers {
		for name, value := range b.files(g.v2)[c] {
			failed = append(failed, os.WriteFile(filepath.Join(dir, name), []byte(value), 0))
		}
	}
	return errors.Join(failed...)
}

// has says whether the kernel has a file of this name in the group.
func (g group) has(file string) bool {
	return slices.ContainsFunc(g.dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, file))
		return err == nil
	})
}

// handDown has machines' groups of version 2 bound by the controllers they need.
func handDown(root string) error {
	var failed []error
	for _, dir := range []string{root, filepath.Join(root, "nodeless")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		there, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return err
		}
		for _, c := range []string{"cpu", "memory", "pids"} {
			switch {
			case slices.Contains(strings.Fields(string(there)), c):
				failed = append(failed, enable(c, dir))
			case dir == root: // else it was said
				failed = append(failed, fmt.Errorf(
					"the kernel does not give the cgroup controller %s: switch it on when it is booted (such as cgroup_enable=memory)", c))
			}
		}
	}
	return errors.Join(failed...)
}

// enable has groups below one bound by a controller.
func enable(controller, dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: processes are in the group itself, as in a container; move them into a group below it", err)
	}
	if err != nil {
		return fmt.Errorf("hand down the cgroup controller %s: %w", controller, err)
	}
	return nil
}

// version2Root is where cgroup version 2 is mounted: alone, or beside the hierarchies of version 1.
func version2Root() (string, error) {
	for _, dir := range []string{cgroupRoot, filepath.Join(cgroupRoot, "unified")} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("cgroup v2 is mounted neither at /sys/fs/cgroup nor at /sys/fs/cgroup/unified: mount it (mount -t cgroup2 none /sys/fs/cgroup/unified)")
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

// remove takes the group away, with those that were made below it, once its processes have gone, which takes the
// kernel a moment.
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

// hierarchy is one of cgroup version 1.
type hierarchy struct {
	at          string
	controllers []string
}

// version1Hierarchies finds those that bound a machine or tell what it uses, each of which is needed.
func version1Hierarchies() ([]hierarchy, error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	needed := []string{"cpu", "cpuacct", "memory", "pids"}
	var out []hierarchy
	found := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // device, where, kind, options
		if len(f) < 4 || f[2] != "cgroup" || !strings.HasPrefix(f[1], cgroupRoot+"/") {
			continue
		}
		h := hierarchy{at: f[1]}
		for _, option := range strings.Split(f[3], ",") {
			if slices.Contains(needed, option) && !found[option] {
				h.controllers = append(h.controllers, option)
				found[option] = true
			}
		}
		if len(h.controllers) > 0 {
			out = append(out, h)
		}
	}
	for _, c := range needed {
		if !found[c] {
			return out, fmt.Errorf("the cgroup controller %s is mounted nowhere below %s", c, cgroupRoot)
		}
	}
	return out, nil
}
