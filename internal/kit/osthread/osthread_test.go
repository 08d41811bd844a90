package osthread

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// f runs in another thread even if the calling goroutine runs in the main thread.
func TestRunLeavesTheMainThread(t *testing.T) {
	wanted := errors.New("this one")
	inMainThread(t, func() {
		for range 100 {
			var thread int
			err := Run(func() error {
				thread = unix.Gettid()
				return wanted
			})
			if thread == 0 || thread == unix.Getpid() {
				t.Errorf("f ran in thread %d of process %d", thread, unix.Getpid())
				return
			}
			if !errors.Is(err, wanted) {
				t.Errorf("Run returned %v", err)
			}
		}
	})
}

// Changes that f makes to its thread end with it.
func TestRunEndsItsThread(t *testing.T) {
	var thread int
	_ = Run(func() error { thread = unix.Gettid(); return nil })
	for begin := time.Now(); unix.Tgkill(unix.Getpid(), thread, 0) == nil; runtime.Gosched() {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("thread %d has not ended", thread)
		}
	}
}

// inMainThread calls f from a goroutine that runs in the main thread.
func inMainThread(t *testing.T, f func()) {
	t.Helper()
	release := make(chan struct{})
	defer close(release)
	for range 1000 {
		found := make(chan bool)
		go func() {
			runtime.LockOSThread()
			isMain := unix.Gettid() == unix.Getpid()
			if isMain {
				runtime.UnlockOSThread()
				f()
			}
			found <- isMain
			<-release // keeps any other thread, so that the next goroutine does not get it
		}()
		if <-found {
			return
		}
	}
	t.Fatal("no goroutine ran in the main thread")
}
