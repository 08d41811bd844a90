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
	spec  wire.Container
	done  chan struct{} // of a sidecar or an ephemeral one: closed when it is no longer supervised

	// Guarded by pod.mu.
	status wire.ContainerStatus
	limits wire.Limits // of the current and later runs; spec has the first ones
	run    *run        // the current one; nil between runs
}

func newContainer(p *pod, index int, spec wire.Container) *container {
	status := wire.ContainerStatus{Name: spec.Name, State: wire.Waiting, Reason: "ContainerCreating"}
	if p.spec.Containers[0].Kind != wire.KindRegular && spec.Kind != wire.KindEphemeral { // init containers come first
		status.Reason = "PodInitializing"
	}
	if spec.Earlier != nil {
		reason := status.Reason
		if status = spec.Earlier.Status(spec.Name); status.State == wire.Waiting {
			status.Reason = reason
		}
	}
	return &container{pod: p, index: index, spec: spec, status: status, limits: spec.Limits}
}

// supervise runs the container repeatedly, as policy requires. It reports whether the last run succeeded.
func (c *container) supervise(policy wire.RestartPolicy) bool {
	ends := 0 // consecutive; a long run resets them
	attempt := 0
	if e := c.spec.Earlier; e != nil {
		if e.Over {
			return true
		}
		attempt = e.Runs
	}
	for ; ; attempt++ {
		if c.stopped() {
			return false
		}
		began := time.Now()
		exit, resized := c.once(attempt)
		ok := exit.Code == 0
		again := !c.stopped() && (resized || policy == wire.RestartAlways || policy == wire.RestartOnFailure && !ok)
		if resized || time.Since(began) > c.pod.spec.Backoff.Reset {
			ends = 0
		}
		ends++
		pause := backoff(c.pod.spec.Backoff, ends)
		c.ended(exit, again, pause)
		if !again {
			return ok
		}
		select {
		case <-time.After(pause):
		case <-c.pod.stopping:
			c.pod.update(func() {
				if s := &c.status; s.Exit == nil { // it waits for its next run: show how the last one ended
					s.State, s.Exit, s.LastExit, s.Reason, s.Message = wire.Terminated, s.LastExit, nil, "", ""
				}
			})
			return false
		}
	}
}

// backoff returns the pause before a container is restarted after the given number of consecutive ends. As with a
// kubelet, there is none after the first end, and it then doubles each time.
func backoff(b wire.Backoff, ends int) time.Duration {
	if ends < 2 {
		return 0
	}
	return time.Duration(min(float64(b.Max), float64(b.Initial)*math.Exp2(float64(ends-2))))
}

func (c *container) stopped() bool {
	select {
	case <-c.pod.stopping:
		return true
	default:
		return false
	}
}

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
		s.State, s.Exit = wire.Terminated, &exit
	})
}

// awaitStartup waits until a sidecar has started for the first time; only then may later init containers run. It
// returns false if the pod stops first.
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

// current returns the container's spec with its current limits.
func (c *container) current() wire.Container {
	spec := c.spec
	c.pod.mu.Lock()
	defer c.pod.mu.Unlock()
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
func (c *container) kill(grace time.Duration, why string) {
	c.pod.mu.Lock()
	r := c.run
	c.pod.mu.Unlock()
	if r != nil {
		r.end(grace, why)
	}
}
