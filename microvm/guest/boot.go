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

// Paths in the guest. Containers see none of them.
const (
	cgroupDir  = "/sys/fs/cgroup"
	modulesDir = "/modules"
)

func mountBasics() error {
	return errors.Join(
		enter.MountFS("proc", "/proc", "proc", enter.DataOnly, ""),
		enter.MountFS("sysfs", "/sys", "sysfs", enter.DataOnly, ""),
		mountDev(),
		enter.MountFS("cgroup2", cgroupDir, "cgroup2", enter.DataOnly, ""),
		enter.MountFS("tmpfs", enter.PodDir, "tmpfs", enter.NoDevices, "mode=0755"),
		enableControllers(cgroupDir),
	)
}

func mountDev() error {
	return errors.Join(
		enter.MountFS("devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, ""),
		enter.MountFS("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "gid=5,mode=0620,ptmxmode=0666"),
	)
}

// enableControllers enables the cgroup controllers that limit the groups in dir.
func enableControllers(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0); err != nil {
		return fmt.Errorf("enable the cgroup controllers cpu, memory and pids (the kernel must provide them): %w", err)
	}
	return nil
}

// loadModules loads the modules in the initial file system, in the host's order. Disks and network devices are found
// but get no driver until a pod is started, since a template's devices differ from those of its clones.
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
				return fmt.Errorf("postpone the probing of disks: %w", err)
			}
		}
		if err := loadModule(filepath.Join(modulesDir, name)); err != nil {
			return fmt.Errorf("load kernel module %s (does it belong to the running kernel?): %w", name, err)
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
	return os.Remove(path) // frees its memory
}

// controlPort opens the virtio-serial port. Reading it returns io.EOF while no host is connected, and works again
// when one is.
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
