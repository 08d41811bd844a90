package vmm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// If nothing reaps processes, as in a container without an init, the process of a VM that has ended still exists.
func TestAdoptUnreapedProcess(t *testing.T) {
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	pid := child.Process.Pid
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	for !hasEnded(fd) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
	}
	began, err := startTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := (record{
		ID: fmt.Sprintf("nltest-ended-%d", os.Getpid()), PID: pid, StartTime: began,
		BootID: bootID(),
	}).save(dir); err != nil {
		t.Fatal(err)
	}
	if m, err := Adopt(dir); !errors.Is(err, ErrGone) {
		t.Errorf("taken up again: %v, %v", m, err)
	}
}
