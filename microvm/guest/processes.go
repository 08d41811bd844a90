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

// processes starts and reaps processes. The agent is the first process and adopts every orphan, so one place reaps all.
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

// start starts a program. The channel receives its status once. Nothing is reaped meanwhile, so that the end of a
// short-lived program is not missed.
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

// startIn is start in the PID namespace of another process; 0 means the agent's own.
func (p *processes) startIn(other int, path string, args []string, attr *syscall.ProcAttr) (pid int,
	ended <-chan unix.WaitStatus, err error,
) {
	if other == 0 {
		return p.start(path, args, attr)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread's children are born in the namespace, so the thread ends with the goroutine.
		runtime.LockOSThread()
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

// exitCode returns a process's exit code as a shell reports it.
func exitCode(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
