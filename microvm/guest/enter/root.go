package enter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makeRoot assembles the container's root in the mount namespace in which this process was started, and enters it.
func (e *Entry) makeRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the guest's mount propagation: %w", err)
	}
	if !e.Container.Privileged { // as with container runtimes, /sys/fs/cgroup is the container's own group
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("leave the guest's cgroups: %w", err)
		}
	}
	data := filepath.Join(e.Upper, "data")
	work := filepath.Join(e.Upper, "work")
	if err := errors.Join(os.MkdirAll(data, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return fmt.Errorf("make the writable layer: %w", err)
	}
	var flags uintptr
	if e.HostKernel {
		flags = unix.MS_NODEV
	}
	if err := MountFS("overlay", rootDir, "overlay", flags,
		"lowerdir="+e.Lower+",upperdir="+data+",workdir="+work); err != nil {
		return fmt.Errorf("combine the image and the writable layer: %w", err)
	}
	if err := e.mountSystem(); err != nil {
		return err
	}
	for _, m := range e.Mounts {
		if err := m.bind(); err != nil {
			return fmt.Errorf("mount volume at %s: %w", m.Target, err)
		}
	}
	if e.Container.ReadOnlyRoot {
		if err := unix.Mount("", rootDir, "", unix.MS_REMOUNT|unix.MS_RDONLY|flags, ""); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
	}
	// Unmount the guest's own directories; what is mounted from them stays.
	for _, dir := range []string{DisksDir, ScratchDir, PodDir} {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("leave %s: %w", dir, err)
		}
	}
	if e.HostKernel {
		return PivotRoot(rootDir)
	}
	return switchRoot()
}

// PivotRoot makes a directory the root of this process's mount namespace, and unmounts the old root.
func PivotRoot(dir string) error {
	if err := errors.Join(unix.Chdir(dir), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH),
		unix.Chdir("/")); err != nil {
		return fmt.Errorf("switch to the root %s: %w", dir, err)
	}
	return nil
}

// switchRoot moves the new root over the old one, since the initial file system cannot be unmounted.
func switchRoot() error {
	if err := unix.Chdir(rootDir); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("switch to the container's root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// mountSystem mounts /proc, /sys and /dev of a container.
func (e *Entry) mountSystem() error {
	readOnly := uintptr(unix.MS_RDONLY)
	if e.Container.Privileged {
		readOnly = 0
	}
	at := func(p string) string { return filepath.Join(rootDir, p) }
	if err := errors.Join(
		MountFS("proc", at("proc"), "proc", DataOnly, ""),
		MountFS("sysfs", at("sys"), "sysfs", DataOnly|readOnly, ""),
		MountFS("cgroup2", at("sys/fs/cgroup"), "cgroup2", DataOnly|readOnly, ""),
	); err != nil {
		return err
	}
	if err := e.mountDev(at); err != nil {
		return err
	}
	if e.Container.Privileged {
		return nil
	}
	// As in every container runtime, files that change the kernel for the whole pod are read-only, and files that
	// reveal the kernel's secrets are hidden.
	for _, p := range []string{"bus", "fs", "irq", "sys", "sysrq-trigger"} {
		if err := readOnlyBind(at("proc/"+p), at("proc/"+p)); err != nil {
			return err
		}
	}
	for _, p := range []string{
		"proc/acpi", "proc/asound", "proc/kcore", "proc/keys", "proc/latency_stats", "proc/sched_debug", "proc/scsi",
		"proc/timer_list", "proc/timer_stats",
		"sys/devices/virtual/powercap", "sys/firmware",
	} {
		if err := hide(at(p), at("dev/null")); err != nil {
			return fmt.Errorf("hide /%s: %w", p, err)
		}
	}
	return nil
}

// hide covers a file or directory, if it exists, with an empty one.
func hide(path, null string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return MountFS("tmpfs", path, "tmpfs", unix.MS_RDONLY|DataOnly, "size=0")
	}
	return unix.Mount(null, path, "", unix.MS_BIND, "")
}

func readOnlyBind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return ReadOnly(target, 0)
}

// Flags of mounts.
const (
	NoDevices = unix.MS_NOSUID | unix.MS_NODEV
	DataOnly  = NoDevices | unix.MS_NOEXEC
)

// MountFS mounts a file system as mount(2) does. It makes the target if it is missing.
func MountFS(source, target, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", fstype, target, err)
	}
	return nil
}

// ReadOnly makes the mount at target read-only, and adds the flags in more.
func ReadOnly(target string, more uintptr) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return err
	}
	keep := uintptr(stat.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|keep|more, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", target, err)
	}
	return nil
}

func (e *Entry) mountDev(at func(string) string) error {
	if e.Container.Privileged {
		if err := MountFS("devtmpfs", at("dev"), "devtmpfs", unix.MS_NOSUID, ""); err != nil {
			return err
		}
	} else {
		if err := e.mountOwnDev(at); err != nil {
			return err
		}
		for link, to := range map[string]string{
			"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
			"stderr": "/proc/self/fd/2",
		} {
			if err := os.Symlink(to, at("dev/"+link)); err != nil {
				return err
			}
		}
	}
	return errors.Join(
		// The guest's own terminals, so that a program run by exec finds the name of its terminal.
		MountFS("/dev/pts", at("dev/pts"), "", unix.MS_BIND, ""),
		MountFS(filepath.Join(PodDir, "shm"), at("dev/shm"), "", unix.MS_BIND, ""),
		MountFS("mqueue", at("dev/mqueue"), "mqueue", DataOnly, ""),
	)
}

// mountOwnDev mounts a /dev with the devices that every container has. With the host's kernel, these are bind mounts,
// and other device nodes do not work.
func (e *Entry) mountOwnDev(at func(string) string) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_STRICTATIME)
	if e.HostKernel {
		flags |= unix.MS_NODEV
	}
	if err := MountFS("tmpfs", at("dev"), "tmpfs", flags, "mode=0755,size=64k"); err != nil {
		return err
	}
	if !e.HostKernel {
		return MakeDevices(at("dev"))
	}
	for name := range devices {
		path := at("dev/" + name)
		err := os.WriteFile(path, nil, 0o666)
		if err == nil {
			err = unix.Mount(filepath.Join(DevicesDir, name), path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	return nil
}

// devices are those that every container has.
var devices = map[string]uint64{
	"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7), "random": unix.Mkdev(1, 8),
	"urandom": unix.Mkdev(1, 9), "tty": unix.Mkdev(5, 0),
}

// MakeDevices makes the nodes of these devices in a directory.
func MakeDevices(dir string) error {
	old := unix.Umask(0)
	defer unix.Umask(old)
	for name, number := range devices {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, int(number)); err != nil {
			return fmt.Errorf("make the device %s: %w", name, err)
		}
	}
	return nil
}
