// Package enter is the short-lived program that becomes a process of a container: it makes the container around
// itself, or joins that of another process, takes on the container's user and executes its program. It is not part of
// the agent because it runs for each container, exec and exec probe: a small Go program starts several times faster
// than the agent, which contains HTTP and TLS.
package enter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Descriptors that a process of this package inherits besides its standard ones.
const (
	EntryFD  = 3 // the Entry, as JSON, is read from it
	ResultFD = 4 // errors are written to it; it is closed when the program runs
	JoinFD   = 5 // a pidfd of the container's first process, if Entry.Join is set
)

// Paths in the guest. Containers see none of them.
const (
	DisksDir   = "/disks"   // root disks by serial, read-only
	ScratchDir = "/scratch" // writable layers and volumes: the scratch disk, or memory
	DevicesDir = "/devices" // with the host's kernel: the device nodes for containers, which are not the host's own
	PodDir     = "/pod"     // in memory: files of /etc, projected volumes, termination messages
	rootDir    = "/root"    // where a container's root is assembled, in its own mount namespace
)

// Entry describes the process to become.
type Entry struct {
	Join bool // join the mounts and cgroups of the process that JoinFD refers to
	Hold bool // hold the namespaces of this process, without a container; the fields below are empty
	// Lower is the image's root, Upper the directory for the overlay's data and work.
	Lower, Upper string
	Mounts       []Mount
	// HostKernel is set if there is no virtual machine. Then the container can neither make device nodes nor reach the
	// file systems that its root covers.
	HostKernel bool
	Container  wire.Container // Args, Env, WorkingDir, User, Capabilities, …
}

// Mount is a volume, or a part of one, in the container.
type Mount struct {
	Source   string // absolute, in the guest
	SubPath  string // below Source; made if it is missing
	Target   string // absolute, in the container
	ReadOnly bool
	// Recursive makes a ReadOnly mount include what is mounted below.
	Recursive bool
	// NoPrograms mounts read-only and keeps the container from executing files, as with a kubelet's image volumes.
	NoPrograms bool
}

// Main becomes the container's process. It does not return.
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

// execute returns only if it fails.
func (e *Entry) execute() error {
	_ = unix.Close(EntryFD)
	if e.Hold {
		return hold()
	}
	var err error
	if e.Join {
		err = join()
	} else {
		err = e.makeRoot()
	}
	if err != nil {
		return err
	}
	c := &e.Container
	score := c.OOMScoreAdj
	if e.HostKernel { // under memory pressure, kill containers before the agent and most of the host
		score = 100
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(score)), 0); err != nil &&
		!errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := enterWorkingDir(c.WorkingDir); err != nil {
		return err
	}
	path, err := lookPath(c.Args[0], c.Env)
	if err != nil {
		return err
	}
	if err := limitOpenFiles(); err != nil {
		return fmt.Errorf("limit its open files: %w", err)
	}
	if err := dropPrivileges(c); err != nil {
		return err
	}
	if err := unix.Exec(path, c.Args, c.Env); err != nil {
		if errors.Is(err, unix.ENOEXEC) {
			return fmt.Errorf("exec %q: exec format error: the image is for another architecture, or the file is not an "+
				"executable", c.Args[0])
		}
		return fmt.Errorf("exec %q: %w", c.Args[0], err)
	}
	return nil
}

// join enters the mounts and cgroups of a running container, whose first process the agent has opened.
func join() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // Setns requires that threads do not share their root directory
		return err
	}
	if err := unix.Setns(JoinFD, unix.CLONE_NEWNS|unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("enter the container's mounts and cgroups: %w", err)
	}
	return unix.Close(JoinFD)
}

func enterWorkingDir(dir string) error {
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

// lookPath finds the program in the container's own PATH.
func lookPath(name string, env []string) (string, error) {
	search := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			search = path
		}
	}
	_ = os.Setenv("PATH", search)
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
