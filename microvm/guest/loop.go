package guest

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// attachDisks gives the host's disk images devices, by their serials. They are to be mounted before release is
// called: a device goes with its last user.
func (g *ground) attachDisks(wanted []string) (devices map[string]string, release func(), err error) {
	devices = map[string]string{}
	var open []*os.File
	release = func() {
		for _, f := range open {
			_ = f.Close()
		}
	}
	for _, d := range g.Disks {
		if !slices.Contains(wanted, d.Serial) {
			continue
		}
		f, err := attachLoop(d)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("disk %q: %w", d.Serial, err)
		}
		open = append(open, f)
		devices[d.Serial] = f.Name()
		_ = unix.Close(d.FD) // the device has it
	}
	return devices, release, nil
}

// attachLoop finds a loop device that nobody uses and puts the image behind it. The kernel takes it back when nobody
// uses it any more, however the agent ends.
func attachLoop(d wire.GroundDisk) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("loop devices (kernel module loop): %w", err)
	}
	defer func() { _ = control.Close() }()
	config := unix.LoopConfig{Fd: uint32(d.FD), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	if d.ReadOnly {
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
		if !errors.Is(err, unix.EBUSY) { // somebody was faster
			return nil, fmt.Errorf("attach it to %s: %w", device.Name(), err)
		}
	}
}
