package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
)

// Places in the guest. Containers see none of them.
const (
	cgroupDir  = "/sys/fs/cgroup"
	modulesDir = "/modules"
)

func mountBasics() error {
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []mount{
		{"proc", "/proc", "proc", plain, ""},
		{"sysfs", "/sys", "sysfs", plain, ""},
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, ""},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=0620,ptmxmode=0666"},
		{"cgroup2", cgroupDir, "cgroup2", plain, ""},
		{"tmpfs", enter.PodDir, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	return handDown()
}

// handDown has containers' groups get their limits: the controllers have to be handed down for that.
func handDown() error {
	if err := os.WriteFile(filepath.Join(cgroupDir, "cgroup.subtree_control"), []byte("+cpu +memory +pids"),
		0); err != nil {
		return fmt.Errorf("hand down the cgroup controllers cpu, memory and pids (the kernel needs them): %w", err)
	}
	return nil
}

// bootArguments reads key=value words of the kernel's command line.
func bootArguments() (map[string]string, error) {
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	args := map[string]string{}
	for _, word := range strings.Fields(string(b)) {
		key, value, _ := strings.Cut(word, "=")
		args[key] = value
	}
	return args, nil
}

// loadModules loads what the host put into the initial file system, in the host's order. Disks and the network are
// found but not touched until a pod is started: what a template's devices were says nothing about those of a clone.
func loadModules() error {
	order, err := os.ReadFile(filepath.Join(modulesDir, "order"))
	if errors.Is(err, os.ErrNotExist) {
		order, err = nil, nil // everything is built into the kernel
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(order)) {
		if name == "virtio_blk.ko" || name == "virtio_blk.ko.xz" {
			if err := os.WriteFile("/sys/bus/virtio/drivers_autoprobe", []byte("0"), 0); err != nil {
				return fmt.Errorf("keep the disks for later: %w", err)
			}
		}
		if err := loadModule(filepath.Join(modulesDir, name)); err != nil {
			return fmt.Errorf("load kernel module %s (is it of the running kernel?): %w", name, err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	flags := 0
	if strings.HasSuffix(path, ".xz") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return os.Remove(path) // its memory
}

// controlPort opens the virtio-serial port. Reading it gives io.EOF while no host is connected, and works again when
// one is.
func controlPort() (*os.File, error) {
	for range 500 {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) == "nodeless" {
				return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(name))), os.O_RDWR, 0)
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, errors.New("there is no virtio-serial port named nodeless")
}

// mount is a file system to be mounted.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) do() error {
	return enter.FS{Source: m.source, Target: m.target, Kind: m.kind, Flags: m.flags, Data: m.data}.Do()
}
