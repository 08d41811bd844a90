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

// nobody is the user that holds namespaces, as in Kubernetes' pause image.
const nobody = 65535

// hold is the first process of a namespace that containers share. It keeps the namespace alive and adopts orphans,
// which the kernel reaps since SIGCHLD is ignored. Containers can see the process; through /proc they find an empty
// root and a user without privileges.
func hold() error {
	signal.Ignore() // all signals that can be ignored
	// A host may not allow a negative score.
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
	// These functions of package syscall apply to all threads.
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
