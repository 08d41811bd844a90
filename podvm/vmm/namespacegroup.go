package vmm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a machine of namespaces beside its shape: what its agent needs, and how many processes it may have.
const (
	agentMiB      = 32
	mostProcesses = "4096"
)

// version2Root is where cgroup version 2 is mounted: alone, or beside the hierarchies of version 1.
func version2Root() (string, error) {
	for _, dir := range []string{cgroupRoot, filepath.Join(cgroupRoot, "unified")} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("cgroup v2 is mounted neither at /sys/fs/cgroup nor at /sys/fs/cgroup/unified: mount it (mount -t cgroup2 none /sys/fs/cgroup/unified)")
}

// limits of a group, by the controller and the file; version 1 and 2 have other names.
type limits map[string]map[string]string

// makeNamespaceGroup makes a machine's cgroup in every hierarchy that its agent uses. Where version 1 has the controllers, it gives its hierarchies by
// their mount options. A machine without its limits is not started: there is no virtual machine that would bound it.
func makeNamespaceGroup(id string, shape Shape) (g group, controllers []string, err error) {
	defer func() {
		if err != nil {
			g.remove()
			err = fmt.Errorf("make the cgroup: %w", err)
		}
	}()
	root, err := version2Root()
	if err != nil {
		return g, nil, err
	}
	memory, quota := strconv.Itoa((shape.MemoryMiB+agentMiB)<<20), strconv.Itoa(shape.CPUs*100_000)
	g.v2 = root == cgroupRoot
	if g.v2 {
		parent := filepath.Join(root, "nodeless")
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return g, nil, err
		}
		for _, d := range []string{root, parent} {
			if err := os.WriteFile(filepath.Join(d, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0); err != nil {
				return g, nil, fmt.Errorf("hand down the controllers cpu, memory and pids: %w", err)
			}
		}
		err = g.make(filepath.Join(parent, id), map[string]string{"memory.max": memory, "cpu.max": quota + " 100000", "pids.max": mostProcesses})
		return g, nil, err
	}
	if err := g.make(filepath.Join(root, "nodeless", id), nil); err != nil {
		return g, nil, err
	}
	hierarchies, err := version1Hierarchies()
	if err != nil {
		return g, nil, err
	}
	values := limits{"memory": {"memory.limit_in_bytes": memory}, "cpu": {"cpu.cfs_quota_us": quota}, "pids": {"pids.max": mostProcesses}}
	for _, h := range hierarchies {
		if err := g.make(filepath.Join(h.at, "nodeless", id), nil); err != nil {
			return g, nil, err
		}
		for _, c := range h.controllers {
			if err := setGroup(filepath.Join(h.at, "nodeless", id), values[c]); err != nil {
				return g, nil, err
			}
		}
		controllers = append(controllers, strings.Join(h.controllers, ","))
	}
	return g, controllers, nil
}

// make makes a directory of the group with its limits.
func (g *group) make(dir string, values map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	g.dirs = append(g.dirs, dir)
	return setGroup(dir, values)
}

func setGroup(dir string, values map[string]string) error {
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// hierarchy is one of cgroup version 1.
type hierarchy struct {
	at          string
	controllers []string
}

// version1Hierarchies finds those that the agent uses, each of which is needed.
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
			return nil, fmt.Errorf("the cgroup controller %s is mounted nowhere below %s", c, cgroupRoot)
		}
	}
	return out, nil
}
