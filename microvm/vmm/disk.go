package vmm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/internal/kit/osthread"
	"github.com/nodeless/nodeless/microvm/guest/enter"
)

// spareSerial returns the serial by which the guest finds a device, counted from 0, that had no disk at the VM's
// start.
func spareSerial(device int) string { return fmt.Sprintf("spare-%d", device) }

func deviceID(device int) string { return fmt.Sprintf("device%d", device) }

// AddDisk attaches a read-only disk to a device of a running VM that had none at the VM's start, and returns the
// serial by which the guest finds the device. Devices are counted from 0 and are used in that order.
func (p *Process) AddDisk(ctx context.Context, device int, path string) (serial string, err error) {
	if device >= MaxDisks {
		return "", fmt.Errorf("a microVM has %d disks, and all are in use", MaxDisks)
	}
	q, err := dialQMP(ctx, p.dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = q.conn.Close() }()
	image, err := os.Open(path) // QEMU may not open it
	if err != nil {
		return "", err
	}
	defer func() { _ = image.Close() }()
	if err := q.pass(image, device); err != nil {
		return "", err
	}
	node := fmt.Sprintf("added%d", device)
	if err := q.execute("blockdev-add", map[string]any{
		"driver": "raw", "node-name": node, "read-only": true,
		"file": map[string]any{"driver": "file", "filename": fmt.Sprintf("/dev/fdset/%d", device), "locking": "off"},
	}, nil); err != nil {
		return "", err
	}
	// QEMU supports this for a realized device since version 6.2.
	if err := q.execute("qom-set", map[string]any{
		"path": "/machine/peripheral/" + deviceID(device), "property": "drive", "value": node,
	}, nil); err != nil {
		_ = q.execute("blockdev-del", map[string]any{"node-name": node}, nil)
		return "", err
	}
	return spareSerial(device), nil
}

// MountDisk mounts a read-only disk for a running agent in namespaces. Disks present at its start are mounted by the
// agent itself.
func (p *Process) MountDisk(serial, path string) error {
	image, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = image.Close() }()
	device, err := enter.AttachLoop(image.Fd(), true)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }() // from then on the mount holds it
	mount, err := openMount(device.Name())
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(mount) }()
	return osthread.Run(func() error { return p.moveMount(mount, filepath.Join(enter.DisksDir, serial)) })
}

// openMount mounts a device's ext4 file system detached, without a path.
func openMount(device string) (int, error) {
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("mount a disk: %w", err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, step := range []func() error{
		func() error { return unix.FsconfigSetString(fs, "source", device) },
		func() error { return unix.FsconfigSetFlag(fs, "ro") },
		func() error { return unix.FsconfigCreate(fs) },
	} {
		if err := step(); err != nil {
			return -1, fmt.Errorf("mount %s: %w", device, err)
		}
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", device, err)
	}
	return mount, nil
}

// moveMount moves the calling thread into the process's mount namespace and attaches the mount there.
func (p *Process) moveMount(mount int, target string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return fmt.Errorf("VM %s has ended", p.record.ID)
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // Setns requires that threads do not share their root directory
		return err
	}
	if err := unix.Setns(p.pidfd, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the pod's mounts: %w", err)
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount a disk on %s: %w", target, err)
	}
	return nil
}
