package enter

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// FS is a file system to be mounted, as mount(2) takes it.
type FS struct {
	Source, Target, Kind string
	Flags                uintptr
	Data                 string
}

// Do mounts it; the target is made if it is missing.
func (m FS) Do() error {
	if err := os.MkdirAll(m.Target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.Source, m.Target, m.Kind, m.Flags, m.Data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.Kind, m.Target, err)
	}
	return nil
}
