package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
)

// Virtio device types, from the virtio specification 1.2, section 5.
const (
	virtioNet   = "0x0001"
	virtioBlock = "0x0002"
)

// bindDevices attaches a driver to the devices of a type, one after the other, until enough returns true. It is
// called once the pod is known and not at boot, so that a clone reads the sizes and contents of its own disks.
func bindDevices(kind, driver string, enough func() (bool, error)) error {
	names, err := filepath.Glob("/sys/bus/virtio/devices/*/device")
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(b)) != kind {
			continue
		}
		device := filepath.Dir(name)
		if _, err := os.Stat(filepath.Join(device, "driver")); err == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join("/sys/bus/virtio/drivers", driver, "bind"), []byte(filepath.Base(device)),
			0); err != nil {
			return fmt.Errorf("attach %s to %s: %w", driver, filepath.Base(device), err)
		}
		if done, err := enough(); done || err != nil {
			return err
		}
	}
	return nil
}

// mountDisks mounts each root disk read-only under its serial, and the scratch disk or, without one, a tmpfs.
func (p *pod) mountDisks() error {
	spec := p.spec
	devices, release, err := p.attachDisks()
	if err != nil {
		return err
	}
	defer release()
	var flags uintptr // with the host's kernel, device nodes that a container makes would be the host's devices
	if p.host != nil {
		flags = unix.MS_NODEV
	}
	for _, serial := range spec.Disks {
		if err := mountDisk(devices, serial, filepath.Join(enter.DisksDir, serial), unix.MS_RDONLY|flags); err != nil {
			return err
		}
	}
	if spec.Scratch == "" {
		return enter.MountFS("tmpfs", enter.ScratchDir, "tmpfs", flags, "mode=0755")
	}
	return mountDisk(devices, spec.Scratch, enter.ScratchDir, unix.MS_NOATIME|flags)
}

// attachDisks returns the devices of the pod's disks by serial. The VM has more devices than the pod has disks; the
// others get no driver, since attaching takes time.
func (p *pod) attachDisks() (devices map[string]string, release func(), err error) {
	wanted := slices.Clone(p.spec.Disks)
	if p.spec.Scratch != "" {
		wanted = append(wanted, p.spec.Scratch)
	}
	release = func() {}
	if len(wanted) == 0 {
		return nil, release, nil
	}
	if p.host != nil {
		return p.host.attachDisks(wanted)
	}
	devices, err = bindDisks(wanted...)
	return devices, release, err
}

// bindDisks attaches the driver to disks until those with the wanted serials are present. It returns the devices of
// all disks that have the driver, by serial.
func bindDisks(wanted ...string) (devices map[string]string, err error) {
	err = bindDevices(virtioBlock, "virtio_blk", func() (bool, error) {
		var err error
		devices, err = disksBySerial()
		return !slices.ContainsFunc(wanted, func(serial string) bool { return devices[serial] == "" }), err
	})
	return devices, err
}

// mountLate mounts a root disk that the host has inserted into a device of a running guest.
func (p *pod) mountLate(device, serial string) error {
	devices, err := bindDisks(device)
	if err != nil {
		return err
	}
	return mountDisk(devices, device, filepath.Join(enter.DisksDir, serial), unix.MS_RDONLY)
}

func disksBySerial() (map[string]string, error) {
	names, err := filepath.Glob("/sys/block/vd*/serial")
	if err != nil {
		return nil, err
	}
	devices := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read a disk's serial: %w", err)
		}
		devices[strings.TrimSpace(string(b))] = filepath.Join("/dev", filepath.Base(filepath.Dir(name)))
	}
	return devices, nil
}

func mountDisk(devices map[string]string, serial, target string, flags uintptr) error {
	device, ok := devices[serial]
	if !ok {
		return fmt.Errorf("disk %q is not attached to this guest, which has %v", serial, devices)
	}
	if err := awaitFile(device); err != nil {
		return err
	}
	if err := enter.MountFS(device, target, "ext4", flags, ""); err != nil {
		return fmt.Errorf("disk %q: %w (an ext4 file system is needed)", serial, err)
	}
	return nil
}

// awaitFile waits for a device node, which devtmpfs makes shortly after the driver has found the device.
func awaitFile(path string) (err error) {
	for range 1000 {
		if _, err = os.Stat(path); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return err
}
