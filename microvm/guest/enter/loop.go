package enter

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// AttachLoop attaches an open image to a free loop device. The kernel detaches it when its last user closes it,
// however that user ends.
func AttachLoop(image uintptr, readOnly bool) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("loop devices (kernel module loop): %w", err)
	}
	defer func() { _ = control.Close() }()
	config := unix.LoopConfig{Fd: uint32(image), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	if readOnly {
		config.Info.Flags |= unix.LO_FLAGS_READ_ONLY
	}
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		_ = device.Close()
		if !errors.Is(err, unix.EBUSY) { // otherwise another process was faster
			return nil, fmt.Errorf("attach it to %s: %w", device.Name(), err)
		}
	}
}
