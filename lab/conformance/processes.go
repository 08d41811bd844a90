package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a child that lives as long as its cluster.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a program in the background with its output in a file of the cluster's folder.
func (c *cluster) start(name string, env []string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(c.o.Dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(args[0], args[1:]...) //nolint:noctx // ended in order, by stop
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, c.o.Dir
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

// stop asks a process to end, and ends it if it does not.
func (p *process) stop(limit time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	defer killer.Stop()
	<-p.done
}

// ended says that a process that should live has not.
func (p *process) ended() error {
	return fmt.Errorf("%s ended by itself (%s); see %s", p.name, p.cmd.ProcessState, p.log)
}

// await asks until ready says yes, one of the processes ends or ctx does.
func await(ctx context.Context, what string, p *process, ready func(context.Context) error) error {
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
			return fmt.Errorf("wait for %s: %w", what, p.ended())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (%w)", what, context.Cause(ctx), err)
		}
	}
}
