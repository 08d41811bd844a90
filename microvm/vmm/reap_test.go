package vmm

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A host process that was killed between creating a VM's cgroup and its process has left a cgroup without a process.
func TestReapGroupsWithoutProcesses(t *testing.T) {
	root := t.TempDir()
	var groups []group
	for _, name := range []string{"kept", "left"} {
		id := fmt.Sprintf("nltest-%s-%d", name, os.Getpid())
		g, _, err := makeGroup(id, podLimits(Shape{CPUs: 1, MemoryMiB: 64}))
		defer g.remove()
		if err != nil {
			t.Skip("no cgroup can be made here:", err)
		}
		if err := os.Mkdir(filepath.Join(root, id), 0o700); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
	}
	if _, err := Reap(root, map[string]bool{filepath.Base(groups[0].dirs[0]): true}); err != nil {
		t.Fatal(err)
	}
	for i, there := range []bool{true, false} {
		for _, dir := range groups[i].dirs {
			if isDir(dir) != there {
				t.Errorf("%s: %v, want %v", dir, isDir(dir), there)
			}
		}
	}
}

func TestVMOf(t *testing.T) {
	const root = "/var/lib/nodeless/machines"
	for dir, want := range map[string]bool{
		root + "/a": true, root: false, root + "/..": false, root + "/a/..": false, root + "/a/b": false,
		root + "/.": false, "/elsewhere/a": false, "": false, root + "/": false,
	} {
		if id, ours := vmOf(root, dir); ours != want || ours && id != "a" {
			t.Errorf("%q: %q, %v", dir, id, ours)
		}
	}
}

// Both versions of cgroups get the same limits.
func TestCgroupLimits(t *testing.T) {
	g, version1, err := makeGroup(fmt.Sprintf("nltest-bounds-%d", os.Getpid()),
		limits{memoryMiB: 64, processes: 100, cpu: 250_000})
	defer g.remove()
	if err != nil {
		t.Skip("no cgroup can be made here:", err)
	}
	if (len(version1) == 0) != g.v2 {
		t.Errorf("hierarchies of version 1: %v, version 2 alone: %v", version1, g.v2)
	}
	held := map[string]string{}
	for _, dir := range g.dirs {
		for _, name := range []string{
			"memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "pids.max",
			"cpu.weight", "cpu.shares",
		} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				held[name] = string(b)
			}
		}
	}
	want := map[string]string{
		"memory.limit_in_bytes": "67108864\n", "cpu.cfs_quota_us": "250000\n",
		"pids.max": "100\n", "cpu.shares": "2048\n",
	}
	if g.v2 {
		want = map[string]string{
			"memory.max": "67108864\n", "cpu.max": "250000 100000\n", "pids.max": "100\n",
			"cpu.weight": "200\n",
		}
	}
	if fmt.Sprint(held) != fmt.Sprint(want) {
		t.Errorf("held %q, want %q", held, want)
	}
}

// All microVMs together compete with the host's processes like one busy process per CPU.
func TestMicroVMsAreNotStarved(t *testing.T) {
	g, _, err := makeGroup(fmt.Sprintf("nltest-weight-%d", os.Getpid()), podLimits(Shape{CPUs: 1, MemoryMiB: 64}))
	defer g.remove()
	if err != nil {
		t.Skip("no cgroup can be made here:", err)
	}
	file, want := cpuWeight(runtime.NumCPU(), g.v2)
	for _, dir := range g.dirs {
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file)); err == nil {
			if got := strings.TrimSpace(string(b)); got != want {
				t.Errorf("%s of all microVMs: %s, want %s", file, got, want)
			}
			return
		}
	}
	t.Errorf("no %s above any of %v", file, g.dirs)
}
