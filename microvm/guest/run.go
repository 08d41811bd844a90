package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

// run is one run of a container.
type run struct {
	c       *container
	attempt int
	pid     int
	cgroup  string
	// version1 are its groups in version 1 hierarchies, by controller.
	version1 map[string]string

	io     *stdio
	output broadcast
	began  time.Time
	ctx    context.Context // done when the process has ended
	cancel context.CancelFunc
	exited chan struct{}
	ending sync.Once
	// resized is set if the run is ended to apply new limits.
	resized atomic.Bool
}

// minGrace is the time that a process still gets if its preStop hook has used up the grace period, as with a kubelet.
const minGrace = 2 * time.Second

// once runs the container until it ends. It reports whether the run was ended to apply new limits.
func (c *container) once(attempt int) (exit wire.Exit, resized bool) {
	r := &run{c: c, attempt: attempt, exited: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	defer r.cancel()
	defer close(r.exited)
	defer r.cleanUp()
	r.began = time.Now()
	ended, err := r.start()
	if err != nil {
		c.pod.update(func() {
			c.status.Restarts = attempt
			c.pod.event(wire.Event{Container: c.spec.Name, Warning: true, Reason: "Failed", Message: "Error: " + err.Error()})
		})
		return wire.Exit{
			Code: 128, Reason: "StartError", Message: err.Error(), Started: time.Unix(0, 0), Finished: r.began,
		}, false
	}
	c.pod.update(func() {
		s := &c.status
		s.LastExit = previous(s)
		s.State, s.Reason, s.Message, s.Exit, s.Started, s.Restarts = wire.Running, "", "", nil, r.began, attempt
		c.run = r
		c.pod.event(wire.Event{Container: c.spec.Name, Reason: "Started", Message: "Container started"})
	})
	if c.stopped() { // the pod was stopped before c.run was set
		go r.end(c.pod.grace(), "Stopping container "+c.spec.Name)
	}
	go r.lead()
	status := <-ended
	r.cancel()
	r.killAll() // ends what the first process has left behind
	r.io.drain()
	return r.exit(status), r.resized.Load()
}

func previous(s *wire.ContainerStatus) *wire.Exit {
	if s.Exit != nil {
		return s.Exit
	}
	return s.LastExit
}

// start makes the container and its process. The pod's owner can act on its errors.
func (r *run) start() (<-chan unix.WaitStatus, error) {
	c := r.c
	if len(c.spec.Args) == 0 {
		return nil, errors.New("no command specified: neither the image nor the pod gives one")
	}
	if err := c.pod.host.allowsContainer(c.spec); err != nil {
		return nil, err
	}
	if err := r.makeCgroup(); err != nil {
		return nil, err
	}
	e, err := r.entry()
	if err != nil {
		return nil, err
	}
	if r.io, err = newStdio(c.spec.TTY, c.spec.Stdin, nil, r.consume); err != nil {
		return nil, err
	}
	o := enterOptions{cgroup: r.cgroup, version1: r.version1, flags: unix.CLONE_NEWNS, pidsOf: c.pod.holder}
	if c.spec.Target != "" {
		target, err := c.pod.running(c.spec.Target)
		if err != nil {
			r.io.drain()
			return nil, fmt.Errorf("see the processes of its target: %w", err)
		}
		o.pidsOf = target.pid
	}
	if o.pidsOf == 0 && !c.pod.spec.HostPID {
		o.flags |= unix.CLONE_NEWPID
	}
	pid, ended, err := c.pod.processes.enter(e, r.io, o)
	if err != nil {
		r.io.drain()
		return nil, err
	}
	r.pid = pid
	return ended, nil
}

// consume stores the container's output line by line, and sends it to all attached clients.
func (r *run) consume(stream byte, from io.Reader) {
	lines(io.TeeReader(from, r.output.channel(stream)), func(line []byte, partial bool) {
		r.c.pod.logs.add(wire.LogRecord{
			Container: uint16(r.c.index), Restart: uint32(r.attempt), Stream: stream, Partial: partial,
			Line: slices.Clone(line),
		})
	})
}

func (r *run) layer() string {
	return filepath.Join(enter.ScratchDir, "containers", fmt.Sprintf("%s.%d", r.c.spec.Name, r.attempt))
}

func (r *run) terminationFile() string {
	return filepath.Join(enter.PodDir, "termination", fmt.Sprintf("%s.%d", r.c.spec.Name, r.attempt))
}

// entry describes the container's process.
func (r *run) entry() (enter.Entry, error) {
	spec := r.c.current()
	e := enter.Entry{
		Lower: filepath.Join(enter.DisksDir, spec.Disk), Upper: r.layer(),
		HostKernel: r.c.pod.host != nil, Container: spec,
	}
	for _, name := range []string{"hosts", "hostname", "resolv.conf", "machine-id"} {
		e.Mounts = append(e.Mounts,
			enter.Mount{Source: filepath.Join(enter.PodDir, name), Target: "/etc/" + name, ReadOnly: name == "machine-id"})
	}
	if spec.TerminationMessagePath != "" {
		if err := os.WriteFile(r.terminationFile(), nil, 0o666); err != nil {
			return e, err
		}
		if err := os.Chmod(r.terminationFile(), 0o666); err != nil {
			return e, err
		}
		e.Mounts = append(e.Mounts, enter.Mount{Source: r.terminationFile(), Target: spec.TerminationMessagePath})
	}
	for _, m := range spec.Mounts {
		source, isImage, err := r.c.pod.volumeDir(m.Volume)
		if err != nil {
			return e, err
		}
		e.Mounts = append(e.Mounts, enter.Mount{
			Source: source, SubPath: m.SubPath, Target: m.Path, ReadOnly: m.ReadOnly, NoPrograms: isImage,
		})
	}
	return e, nil
}

// end runs the preStop hook, sends the stop signal and, when the grace period is over, kills the container. It returns
// when the process has ended.
func (r *run) end(grace time.Duration, why string) {
	r.ending.Do(func() {
		c := r.c
		c.pod.update(func() { c.pod.event(wire.Event{Container: c.spec.Name, Reason: "Killing", Message: why}) })
		deadline := time.Now().Add(grace)
		if c.spec.PreStop != nil && grace > 0 {
			ctx, cancel := context.WithDeadline(r.ctx, deadline)
			if err := r.hook(ctx, *c.spec.PreStop); err != nil && r.ctx.Err() == nil {
				r.warn("FailedPreStopHook", "PreStopHook failed: "+err.Error())
			}
			cancel()
		}
		if grace > 0 {
			_ = unix.Kill(r.pid, r.stopSignal())
			select {
			case <-r.exited:
				return
			case <-time.After(max(time.Until(deadline), min(minGrace, grace))):
			}
		}
		r.killAll()
	})
	<-r.exited
}

func (r *run) stopSignal() unix.Signal {
	if r.c.spec.StopSignal != 0 {
		return unix.Signal(r.c.spec.StopSignal)
	}
	return unix.SIGTERM
}

// exit returns how the run ended.
func (r *run) exit(status unix.WaitStatus) wire.Exit {
	e := wire.Exit{Code: exitCode(status), Started: r.began, Finished: time.Now(), Reason: "Completed"}
	if status.Signaled() {
		e.Signal = int(status.Signal())
	}
	if e.Code != 0 {
		e.Reason = "Error"
	}
	if r.outOfMemory() {
		e.Reason = "OOMKilled"
	}
	e.Message = r.terminationMessage(e.Code != 0)
	return e
}

const maxTerminationMessage = 4096 // bytes, as kubelet's

func (r *run) terminationMessage(failed bool) string {
	if r.c.spec.TerminationMessagePath == "" {
		return ""
	}
	f, err := os.Open(r.terminationFile())
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b, _ := io.ReadAll(io.LimitReader(f, maxTerminationMessage))
	if len(b) == 0 && failed && r.c.spec.FallbackToLogs {
		b = r.output.lastBytes()
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// cleanUp removes what belonged to the run alone. The logs stay.
func (r *run) cleanUp() {
	r.cancel()
	_ = os.RemoveAll(r.layer())
	_ = os.Remove(r.terminationFile())
	if r.cgroup != "" {
		_ = os.Remove(r.cgroup)
	}
	for _, dir := range r.version1 {
		_ = os.Remove(dir)
	}
}
