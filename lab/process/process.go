// Package process runs the programs of a lab cluster: child processes that log to a folder and do not outlive their
// parent.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a child process that is killed when this process ends.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Start runs a program in the background, in the folder dir, and logs its output to name.log there. env is added to
// this process's environment.
func Start(dir, name string, env []string, args ...string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(args[0], args[1:]...) //nolint:noctx // ended in order, by Stop
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop sends SIGTERM to the process, kills it if it has not ended after the limit, and waits for its end.
func (p *Process) Stop(limit time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	defer killer.Stop()
	<-p.done
}

// Exited returns the error for a process that ended unexpectedly. Call it only once Done is closed.
func (p *Process) Exited() error {
	return fmt.Errorf("%s ended by itself (%s); see %s", p.name, p.cmd.ProcessState, p.log)
}

// Await calls ready until it returns nil, p ends or ctx is done.
func Await(ctx context.Context, what string, p *Process, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("wait for %s: %w", what, p.Exited())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (%w)", what, context.Cause(ctx), err)
		}
	}
}
