// Package enter is the short-lived program that becomes a process of a container: it makes the container around
// itself (or joins the one of another process), takes on the container's user and executes its program. It is apart
// from the agent because it runs once for each container, exec and exec probe: a small Go program starts several
// times faster than the agent, which knows HTTP and TLS.
package enter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Descriptors a process of this package inherits beside its standard ones.
const (
	EntryFD  = 3 // the Entry, JSON, is read from it
	ResultFD = 4 // what went wrong is written to it; it is closed when the program runs
	JoinFD   = 5 // the mount namespace to join, with Entry.Join
)

// Places in the guest. Containers see none of them.
const (
	DisksDir   = "/disks"   // root disks by serial, read-only
	ScratchDir = "/scratch" // writable layers and volumes: the scratch disk, or memory
	DevicesDir = "/devices" // with the host's kernel: the devices that containers have, which are not the host's own files
	PodDir     = "/pod"     // in memory: /etc files, projected volumes, termination messages
	rootDir    = "/root"    // where a container's root is put together, in its own mount namespace
)

// Entry is what enter needs to know.
type Entry struct {
	Join   bool // the mount namespace is inherited from descriptor JoinFD
	Hold   bool // no container: the process holds the namespace it was started in; all below is empty
	Lower  string
	Upper  string // holds data and work of the overlay
	Mounts []Mount
	// HostKernel: there is no virtual machine. Devices that the container makes are none, and what is below its root is
	// out of reach for good.
	HostKernel bool
	Container  wire.Container // Args, Env, WorkingDir, User, Capabilities, …
}

// Mount of a volume, or a part of it, into the container.
type Mount struct {
	Source   string // absolute, in the guest
	SubPath  string // below Source; made when it is missing
	Target   string // absolute, in the container
	ReadOnly bool
}

// Main becomes the container's process; it returns to nobody.
func Main() {
	runtime.LockOSThread()
	var e Entry
	err := json.NewDecoder(os.NewFile(EntryFD, "entry")).Decode(&e)
	if err == nil {
		unix.CloseOnExec(ResultFD)
		err = e.execute()
	}
	_, _ = unix.Write(ResultFD, []byte(err.Error()))
	os.Exit(128)
}

// execute does not return unless something is wrong.
func (e *Entry) execute() error {
	_ = unix.Close(EntryFD)
	if e.Hold {
		return hold()
	}
	var err error
	if e.Join {
		err = joinMounts()
	} else {
		err = e.makeRoot()
	}
	if err != nil {
		return err
	}
	c := &e.Container
	if e.HostKernel { // before the agent, and before most of the host
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte("100"), 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	id, err := lookUpUser(c.User)
	if err != nil {
		return err
	}
	if err := workingDir(c.WorkingDir); err != nil {
		return err
	}
	env := environment(c.Env, id.home)
	path, err := lookPath(c.Args[0], env)
	if err != nil {
		return err
	}
	if err := dropPrivileges(c, id); err != nil {
		return err
	}
	if err := unix.Exec(path, c.Args, env); err != nil {
		if errors.Is(err, unix.ENOEXEC) {
			return fmt.Errorf("exec %q: exec format error: the image is for another architecture, or the file is no program",
				c.Args[0])
		}
		return fmt.Errorf("exec %q: %w", c.Args[0], err)
	}
	return nil
}

// joinMounts enters the mount namespace of a running container. The descriptor was opened by the agent.
func joinMounts() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // threads share their root directory, which forbids it
		return err
	}
	if err := unix.Setns(JoinFD, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the container's mounts: %w", err)
	}
	return unix.Close(JoinFD)
}

func workingDir(dir string) error {
	if dir == "" {
		dir = "/"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("make the working directory: %w", err)
	}
	if err := unix.Chdir(dir); err != nil {
		return fmt.Errorf("enter the working directory %s: %w", dir, err)
	}
	return nil
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment adds PATH and HOME where they are missing.
func environment(env []string, home string) []string {
	has := func(name string) bool {
		for _, v := range env {
			if strings.HasPrefix(v, name+"=") {
				return true
			}
		}
		return false
	}
	if !has("PATH") {
		env = append(env, "PATH="+defaultPath)
	}
	if !has("HOME") {
		env = append(env, "HOME="+home)
	}
	return env
}

// lookPath finds the program by the container's own PATH.
func lookPath(name string, env []string) (string, error) {
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			_ = os.Setenv("PATH", path)
		}
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		var cause unix.Errno
		if errors.As(err, &cause) {
			err = cause
		} else {
			err = exec.ErrNotFound
		}
		return "", fmt.Errorf("exec: %q: %w", name, err)
	}
	if !filepath.IsAbs(path) {
		path = "./" + path
	}
	return path, nil
}
