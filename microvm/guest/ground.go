package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

// ground is what the agent stands on: nil is a kernel of its own, in a virtual machine; else it is in namespaces of a
// host, whose kernel is not to be changed.
type ground struct {
	wire.Ground
	// where the hierarchies of cgroup version 1 are mounted, by their controllers; empty with version 2 alone
	version1 map[string]string
}

// version1Base has the hierarchies of cgroup version 1.
const version1Base = "/cgroup.v1"

// groundVariable hands what the agent was told to itself: it is executed again once its namespaces are complete.
const groundVariable = "NODELESS_GROUND"

// inNamespaces reports whether the agent was started in namespaces of a host.
func inNamespaces() bool { return len(os.Args) > 2 && os.Args[2] == wire.GroundArgument }

// standOnHost makes the agent's root, apart from the host's, and executes the agent anew in it: threads that the Go
// runtime has made before are in the host's cgroup namespace still. The second time it returns what it was told.
func standOnHost() (*ground, error) {
	runtime.LockOSThread() // a cgroup namespace is a thread's own, and the one that executes hands it on
	defer runtime.UnlockOSThread()
	if told, ok := os.LookupEnv(groundVariable); ok {
		return settled(told)
	}
	told, err := readAll(wire.GroundFD)
	if err != nil {
		return nil, err
	}
	var g wire.Ground
	if err := json.Unmarshal(told, &g); err != nil {
		return nil, fmt.Errorf("read what the host says (it may have gone): %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return nil, fmt.Errorf("part from the host's cgroups: %w", err)
	}
	if err := leaveHost(g); err != nil {
		return nil, err
	}
	return nil, unix.Exec("/proc/self/exe", os.Args, []string{groundVariable + "=" + string(told)})
}

func readAll(fd int) ([]byte, error) {
	f := os.NewFile(uintptr(fd), "ground")
	defer func() { _ = f.Close() }()
	var all []byte
	for buf := make([]byte, 4096); ; {
		n, err := f.Read(buf)
		if all = append(all, buf[:n]...); err != nil {
			return all, nil
		}
	}
}

// leaveHost puts an empty file system in the place of the host's, with the program of containers in it.
func leaveHost(g wire.Ground) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("part from the host's mounts: %w", err)
	}
	if err := (mount{"tmpfs", g.Root, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755,size=1m"}).do(); err != nil {
		return err
	}
	program := filepath.Join(g.Root, enterProgram)
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(g.Enter, program, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("take %s along: %w", g.Enter, err)
	}
	// a container finds it as what its processes were before (/proc/PID/exe), and all pods of the host start with it
	if err := enter.ReadOnly(program); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "devices", "disks", "pod", "proc", "root", "scratch", "sys"} {
		if err := os.Mkdir(filepath.Join(g.Root, dir), 0o755); err != nil {
			return err
		}
	}
	// With the new root in place of the old one, which lies below it then and is taken away.
	if err := errors.Join(unix.Chdir(g.Root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH),
		unix.Chdir("/")); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return mount{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""}.do()
}

// settled is what the agent does when it was executed again.
func settled(told string) (*ground, error) {
	g := &ground{version1: map[string]string{}}
	if err := json.Unmarshal([]byte(told), &g.Ground); err != nil {
		return nil, err
	}
	_ = os.Unsetenv(groundVariable)
	unix.CloseOnExec(wire.ControlFD)
	for _, d := range g.Disks {
		unix.CloseOnExec(d.FD)
	}
	for _, m := range []mount{
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, ""},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=0620,ptmxmode=0666"},
		{"tmpfs", enter.DevicesDir, "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0755,size=64k"},
		{"tmpfs", enter.PodDir, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	} {
		if err := m.do(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(enter.MakeDevices(enter.DevicesDir), g.mountCgroups()); err != nil {
		return nil, err
	}
	// When the pod's memory is used up it is a container that goes, and not the agent. A host that is a container itself
	// may not allow it; containers then go first for what enter gives them.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-998"), 0)
	return g, nil
}

// mountCgroups mounts what the namespace shows of the cgroup hierarchies: the machine's own groups. The agent goes
// into a group below, since a group that hands controllers down has no processes.
func (g *ground) mountCgroups() error {
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := (mount{"cgroup2", cgroupDir, "cgroup2", plain, ""}).do(); err != nil {
		return err
	}
	own := filepath.Join(cgroupDir, "agent")
	if err := errors.Join(os.Mkdir(own, 0o755),
		os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0)); err != nil {
		return fmt.Errorf("make the agent's cgroup: %w", err)
	}
	if len(g.Controllers) == 0 {
		return handDown()
	}
	for _, controllers := range g.Controllers {
		at := filepath.Join(version1Base, controllers)
		if err := (mount{"cgroup", at, "cgroup", plain, controllers}).do(); err != nil {
			return err
		}
		for _, c := range strings.Split(controllers, ",") {
			g.version1[c] = at
		}
	}
	return nil
}
