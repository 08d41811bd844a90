package guest

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// restartingMessage is the kubelet's message with wire.RestartingAll (pkg/kubelet, Kubernetes 1.36).
const restartingMessage = "The container is removed because RestartAllContainers in place"

// restarts reports whether a container that has ended with this exit code runs again, and whether all of the pod's
// containers do. As with a kubelet, the first rule that matches decides, then the container's own policy, then the
// pod's. An init container that has succeeded does not run again by itself.
func (c *container) restarts(code int) (again, all bool) {
	done := c.spec.Kind == wire.KindInit && code == 0
	for _, r := range c.spec.RestartRules {
		if slices.Contains(r.Codes, code) != r.Except {
			return !done, r.All
		}
	}
	policy := c.policy()
	return !done && (policy == wire.RestartAlways || policy == wire.RestartOnFailure && code != 0), false
}

// policy returns the container's own restart policy, else the pod's.
func (c *container) policy() wire.RestartPolicy {
	switch c.spec.Kind {
	case wire.KindSidecar:
		return wire.RestartAlways
	case wire.KindEphemeral:
		return wire.RestartNever
	}
	return cmp.Or(c.spec.RestartPolicy, c.pod.spec.RestartPolicy)
}

// conclude does what follows from the end of a run, and reports whether the container runs again by itself. As with a
// kubelet, after a failed probe it does unless its policy is Never, whatever its exit code and its rules
// (computePodActions in pkg/kubelet/kuberuntime/kuberuntime_manager.go, Kubernetes 1.36).
func (c *container) conclude(exit *wire.Exit, unhealthy bool) bool {
	again, all := c.restarts(exit.Code)
	if unhealthy && c.policy() != wire.RestartNever {
		again, all = true, false
	}
	switch {
	case all && !c.stopped():
		c.pod.restartAll(c)
	case closed(c.over) && exit.Signal == int(unix.SIGKILL):
		exit.Reason, exit.Message = wire.RestartingAll, restartingMessage
	}
	return again && !c.stopped()
}

// restartAll ends the round: as with a kubelet, all other containers are killed at once, except for ephemeral ones.
func (p *pod) restartAll(source *container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed(p.over) {
		return
	}
	close(p.over)
	p.each(func(c *container) {
		if r := c.run; r != nil && c != source {
			go r.end(0, "Stopping container "+c.spec.Name)
		}
	})
}

// nextRound reports whether all containers run again. If so it ends those of the last round, and waits for the
// back-off.
func (p *pod) nextRound() bool {
	if !closed(p.over) {
		return false
	}
	for _, c := range p.all() { // they are being killed
		if c.spec.Kind == wire.KindSidecar && c.done != nil {
			<-c.done
			c.done = nil
		}
	}
	p.update(func() {
		p.over = make(chan struct{})
		p.each((*container).reset)
	})
	if time.Since(p.began) > p.spec.Backoff.Reset {
		p.rounds = 0
	}
	p.rounds++
	select {
	case <-time.After(backoff(p.spec.Backoff, p.rounds)):
	case <-p.stopping:
	}
	if closed(p.stopping) {
		p.update(func() { p.each((*container).settle) })
		return false
	}
	return true
}

// each calls do for each container that belongs to a round. p.mu is held.
func (p *pod) each(do func(*container)) {
	for _, c := range p.containers {
		if c.spec.Kind != wire.KindEphemeral {
			do(c)
		}
	}
}

// reset makes a container wait for its first run of a round. p.mu is held.
func (c *container) reset() {
	s := &c.status
	c.completed, s.Ready, s.StartupDone = false, false, false
	if last := previous(s); last != nil {
		s.State, s.Exit, s.LastExit, s.Started = wire.Waiting, nil, last, time.Time{}
		s.Reason, s.Message = wire.RestartingAll, restartingMessage
	}
}

// settle shows how the last run of a container ended, if it waits for the next one, which will not be. p.mu is held.
func (c *container) settle() {
	if s := &c.status; s.State == wire.Waiting && s.LastExit != nil {
		s.State, s.Exit, s.LastExit, s.Reason, s.Message = wire.Terminated, s.LastExit, nil, "", ""
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
