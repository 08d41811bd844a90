package guest

import (
	"fmt"
	"math"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// container supervises one container of the pod: its runs, one after the other.
type container struct {
	pod   *pod
	index int
	spec  wire.Container // as at the pod's start: later runs may differ in what does not depend on the pod alone
	done  chan struct{}  // of a sidecar or an ephemeral one: closed when it is no longer supervised
	runs  int            // before the next one
	// completed is set if it has ended for good in an earlier VM.
	completed bool
	over      <-chan struct{} // closed: it is ended and supervised again; nil: that never happens

	// Guarded by pod.mu.
	status wire.ContainerStatus
	limits wire.Limits // of the current and later runs; spec has the first ones
	// next is what later runs are like, with marks for values from files, and active the current one.
	next, active wire.Container
	supplied     chan struct{} // closed and replaced when next changes
	run          *run          // the current one; nil between runs
}

func newContainer(p *pod, index int, spec wire.Container) *container {
	status := wire.ContainerStatus{Name: spec.Name, State: wire.Waiting, Reason: "ContainerCreating"}
	if p.spec.Containers[0].Kind != wire.KindRegular && spec.Kind != wire.KindEphemeral { // init containers come first
		status.Reason = "PodInitializing"
	}
	c := &container{
		pod: p, index: index, spec: spec, limits: spec.Limits, next: spec, active: spec, supplied: make(chan struct{}),
	}
	if e := spec.Earlier; e != nil {
		reason := status.Reason
		if status = e.Status(spec.Name); status.State == wire.Waiting {
			status.Reason = reason
		}
		c.runs, c.completed = e.Runs, e.Over
	}
	c.status = status
	c.status.User, c.status.Held = &spec.User, spec.Held != nil
	return c
}

// supervise runs the container repeatedly, as its restart rules and policy require. It reports whether the last run
// succeeded.
func (c *container) supervise() bool {
	if c.completed {
		return c.status.Exit != nil && c.status.Exit.Code == 0
	}
	ends := 0 // consecutive; a long run resets them
	for !c.stopped() && c.awaitConfig() {
		began := time.Now()
		r, exit := c.once(c.runs)
		c.runs++
		resized := r.resized.Load()
		again := c.conclude(&exit, r.unhealthy.Load()) || resized && !c.stopped()
		if resized || time.Since(began) > c.pod.spec.Backoff.Reset {
			ends = 0
		}
		ends++
		pause := backoff(c.pod.spec.Backoff, ends)
		c.ended(exit, again, pause)
		if !again {
			return exit.Code == 0
		}
		select {
		case <-time.After(pause):
		case <-c.over:
		case <-c.pod.stopping:
			c.pod.update(c.settle)
		}
	}
	return false
}

// backoff returns the pause before a container is restarted after the given number of consecutive ends. As with a
// kubelet, there is none after the first end, and it then doubles each time.
func backoff(b wire.Backoff, ends int) time.Duration {
	if ends < 2 {
		return 0
	}
	return time.Duration(min(float64(b.Max), float64(b.Initial)*math.Exp2(float64(ends-2))))
}

// stopped reports whether the container must not run any more, or not before all others have ended, too.
func (c *container) stopped() bool { return closed(c.pod.stopping) || closed(c.over) }

// ended records how a run ended and what comes next.
func (c *container) ended(exit wire.Exit, again bool, pause time.Duration) {
	c.pod.update(func() {
		c.run = nil
		s := &c.status
		s.Ready, s.StartupDone = false, false
		if !again {
			s.State, s.Exit, s.Reason, s.Message = wire.Terminated, &exit, "", ""
			s.Ready = c.spec.Kind == wire.KindInit && exit.Code == 0
			return
		}
		if pause > 0 {
			s.State, s.Exit, s.LastExit, s.Started = wire.Waiting, nil, &exit, time.Time{}
			s.Reason = "CrashLoopBackOff"
			s.Message = fmt.Sprintf("back-off %s restarting failed container=%s", pause, c.spec.Name)
			c.pod.event(wire.Event{
				Container: c.spec.Name, Warning: true, Reason: "BackOff",
				Message: "Back-off restarting failed container " + c.spec.Name,
			})
			return
		}
		if byItself, _ := c.restarts(exit.Code); !byItself {
			// As it ended because of a probe or a resize. The API server refuses that it is terminated and runs again
			// (ValidateContainerStateTransition in pkg/apis/core/validation, Kubernetes 1.36).
			s.State, s.Exit, s.LastExit, s.Started = wire.Waiting, nil, &exit, time.Time{}
			s.Reason, s.Message = "ContainerCreating", ""
			return
		}
		s.State, s.Exit = wire.Terminated, &exit
	})
}

// awaitStartup waits until a sidecar has started for the first time; only then may later init containers run. It
// returns false if the sidecar must end first.
func (c *container) awaitStartup() bool {
	for {
		c.pod.mu.Lock()
		started, changed := c.status.StartupDone, c.pod.changed
		c.pod.mu.Unlock()
		if started {
			return true
		}
		select {
		case <-changed:
		case <-c.over:
			return false
		case <-c.pod.stopping:
			return false
		}
	}
}

// resize applies new limits to the container's later runs, and to its current run unless that must be restarted.
func (c *container) resize(q wire.Resize) error {
	c.pod.mu.Lock()
	old, r := c.limits, c.run
	c.limits = q.Limits
	c.pod.mu.Unlock()
	switch {
	case r == nil:
	case q.Restart:
		r.resized.Store(true)
		go r.end(c.pod.spec.GracePeriod, fmt.Sprintf("Container %s resize requires restart", c.spec.Name))
	default:
		if err := r.resize(q.Limits); err != nil {
			c.pod.mu.Lock()
			c.limits = old
			c.pod.mu.Unlock()
			return err
		}
	}
	return nil
}

// resize applies new limits to a container of the pod.
func (p *pod) resize(q wire.Resize) error {
	c, err := p.container(q.Container)
	if err != nil {
		return err
	}
	return c.resize(q)
}

// supply replaces what later runs of a container of the pod are like. Its limits stay.
func (p *pod) supply(a wire.Add) error {
	c, err := p.container(a.Container.Name)
	if err != nil {
		return err
	}
	if a.Container.Kind != c.spec.Kind {
		return fmt.Errorf("container %s is of kind %s, not %s", c.spec.Name, c.spec.Kind, a.Container.Kind)
	}
	p.adding.Lock()
	defer p.adding.Unlock()
	if err := p.mountFor(a); err != nil {
		return err
	}
	p.update(func() {
		c.next, c.status.Held = a.Container, a.Container.Held != nil
		close(c.supplied)
		c.supplied = make(chan struct{})
	})
	return nil
}

// current returns what the current run is like, with its current limits.
func (c *container) current() wire.Container {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	spec := c.active
	spec.Limits = c.limits
	return spec
}

// running returns the container's current run.
func (c *container) running() (*run, error) {
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
	if c.run == nil || c.status.State != wire.Running {
		return nil, fmt.Errorf("container %s is not running", c.spec.Name)
	}
	return c.run, nil
}

// kill ends the current run, if there is one, and returns when it has ended.
func (c *container) kill(grace time.Duration) {
	c.pod.mu.Lock()
	r := c.run
	c.pod.mu.Unlock()
	if r != nil {
		r.end(grace, "Stopping container "+c.spec.Name)
	}
}
