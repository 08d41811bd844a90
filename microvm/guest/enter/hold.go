package enter

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nobody is the user that holds a namespace, as in Kubernetes' pause image.
const nobody = 65535

// hold is the first process of a namespace that containers share: it is there, and inherits their orphans, which the
// kernel removes since the end of a child is ignored. Containers see it; through /proc they find an empty root and a
// user without rights.
func hold() error {
	// all that can be
	signal.Ignore()
	// a host may not allow it
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil && !errors.Is(err, unix.EACCES) {
		return err
	}
	if err := os.MkdirAll(rootDir, 0o755); err != nil {
		return err
	}
	if err := unix.Chroot(rootDir); err != nil {
		return fmt.Errorf("hold a namespace: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// Those of package syscall are of all threads.
	for _, drop := range []func() error{
		func() error { return syscall.Setgroups(nil) }, func() error { return syscall.Setgid(nobody) },
		func() error { return syscall.Setuid(nobody) },
	} {
		if err := drop(); err != nil {
			return fmt.Errorf("hold a namespace: drop rights: %w", err)
		}
	}
	_ = unix.Close(ResultFD)
	for {
		time.Sleep(time.Hour)
	}
}
