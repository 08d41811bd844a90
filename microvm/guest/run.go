package guest

import (
	"cmp"
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
	spec    wire.Container // as of its start
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
	// resized is set if the run is ended to apply new limits, unhealthy if because of a failed probe.
	resized, unhealthy atomic.Bool
}

// minGrace is the time that a process still gets if its preStop hook has used up the grace period, as with a kubelet.
const minGrace = 2 * time.Second

// once runs the container until it ends. It returns the run and how it ended.
func (c *container) once(attempt int) (r *run, exit wire.Exit) {
	r = &run{c: c, spec: c.current(), attempt: attempt, exited: make(chan struct{})}
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
		return r, wire.Exit{
			Code: 128, Reason: "StartError", Message: err.Error(), Started: time.Unix(0, 0), Finished: r.began,
		}
	}
	c.pod.update(func() {
		s := &c.status
		s.LastExit = previous(s)
		s.State, s.Reason, s.Message, s.Exit, s.Started, s.Restarts = wire.Running, "", "", nil, r.began, attempt
		c.run = r
		c.pod.event(wire.Event{Container: c.spec.Name, Reason: "Started", Message: "Container started"})
	})
	switch why := "Stopping container " + c.spec.Name; { // it must end since before c.run was set
	case closed(c.pod.stopping):
		go r.end(c.pod.grace(), why)
	case closed(c.over):
		go r.end(0, why)
	}
	go r.lead()
	status := <-ended
	r.cancel()
	r.killAll() // ends what the first process has left behind
	r.io.drain()
	return r, r.exit(status)
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
	if len(r.spec.Args) == 0 {
		return nil, errors.New("no command specified: neither the image nor the pod gives one")
	}
	if err := c.pod.host.allowsContainer(r.spec); err != nil {
		return nil, err
	}
	if err := r.makeCgroup(); err != nil {
		return nil, err
	}
	e, err := r.entry()
	if err != nil {
		return nil, err
	}
	if r.io, err = newStdio(r.spec.TTY, r.spec.Stdin, nil, r.consume); err != nil {
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
		source, isImage := filepath.Join(enter.DisksDir, m.Disk), true
		if m.Disk == "" { // of no image, or of a host of an older release
			var err error
			if source, isImage, err = r.c.pod.volumeDir(m.Volume); err != nil {
				return e, err
			}
		}
		e.Mounts = append(e.Mounts, enter.Mount{
			Source: source, SubPath: m.SubPath, Target: m.Path, ReadOnly: m.ReadOnly, Recursive: m.Recursive,
			NoPrograms: isImage,
		})
	}
	// As with container runtimes, a directory is mounted before what is below it.
	slices.SortStableFunc(e.Mounts, func(a, b enter.Mount) int { return cmp.Compare(depth(a), depth(b)) })
	return e, nil
}

// depth returns the number of directories on the way to a mount.
func depth(m enter.Mount) int { return strings.Count(filepath.Clean(m.Target), "/") }

// end runs the preStop hook, sends the stop signal and, when the grace period is over, kills the container. It returns
// when the process has ended.
func (r *run) end(grace time.Duration, why string) {
	r.ending.Do(func() {
		c := r.c
		c.pod.update(func() { c.pod.event(wire.Event{Container: c.spec.Name, Reason: "Killing", Message: why}) })
		deadline := time.Now().Add(grace)
		if r.spec.PreStop != nil && grace > 0 {
			ctx, cancel := context.WithDeadline(r.ctx, deadline)
			if err := r.hook(ctx, *r.spec.PreStop); err != nil && r.ctx.Err() == nil {
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
	if r.spec.StopSignal != 0 {
		return unix.Signal(r.spec.StopSignal)
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

// terminationMessage returns the end of the run's file or, as the container demands, of its log.
func (r *run) terminationMessage(failed bool) string {
	if r.spec.TerminationMessagePath == "" {
		return ""
	}
	b := endOf(r.terminationFile(), maxTerminationMessage)
	if len(b) == 0 && failed && r.spec.FallbackToLogs {
		b = r.output.end()
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// endOf returns at most n bytes of the end of a file; none if it cannot be read.
func endOf(path string, n int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	size, _ := f.Seek(0, io.SeekEnd)
	b, _ := io.ReadAll(io.NewSectionReader(f, max(0, size-n), n))
	return b
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
