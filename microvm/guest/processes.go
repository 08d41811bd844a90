package guest

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// processes reaps: as the first process the agent inherits every orphan, so that one place waits for all.
type processes struct {
	mu    sync.Mutex
	exits map[int]chan unix.WaitStatus
}

func newProcesses() *processes {
	p := &processes{exits: map[int]chan unix.WaitStatus{}}
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	go func() {
		for range died {
			p.reap()
		}
	}()
	return p
}

func (p *processes) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if ch, ok := p.exits[pid]; ok {
			ch <- status
			delete(p.exits, pid)
		}
	}
}

// start runs a program; the channel gives its end, once. Nothing is reaped meanwhile, so that a short-lived one is
// not missed.
func (p *processes) start(path string, args []string, attr *syscall.ProcAttr) (int, <-chan unix.WaitStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, err := syscall.ForkExec(path, args, attr)
	if err != nil {
		return 0, nil, err
	}
	ch := make(chan unix.WaitStatus, 1)
	p.exits[pid] = ch
	return pid, ch, nil
}

// startIn is start in the PID namespace of another process (0: the agent's own).
func (p *processes) startIn(other int, path string, args []string, attr *syscall.ProcAttr) (pid int,
	ended <-chan unix.WaitStatus, err error,
) {
	if other == 0 {
		return p.start(path, args, attr)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread, whose children are born elsewhere, goes with the goroutine
		var namespace *os.File
		if namespace, err = os.Open(fmt.Sprintf("/proc/%d/ns/pid", other)); err != nil {
			return
		}
		defer func() { _ = namespace.Close() }()
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWPID); err != nil {
			return
		}
		pid, ended, err = p.start(path, args, attr)
	}()
	<-done
	return pid, ended, err
}

// exitCode is a process's end as a shell says it.
func exitCode(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
