package plane

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Limits of the stages of the shutdown; together they stay below five seconds.
const (
	clientsShutdown   = 1500 * time.Millisecond // controllers and scheduler, together
	apiserverShutdown = 2500 * time.Millisecond
	etcdShutdown      = 900 * time.Millisecond
)

// supervise shuts everything down after Stop, or after a component failed.
func (p *Plane) supervise() {
	select {
	case <-p.stopping:
	case <-p.failed:
		<-p.settled()
	}
	p.shutdown()
	inUse.Unlock() // before done is closed: a waiter may start the next one at once
	close(p.done)
}

// settled returns a channel that is closed once the start has ended: at Stop, or because the plane runs.
func (p *Plane) settled() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.components[clientsReady] != nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return p.stopping
}

// fail records the first failure of a component and begins the shutdown.
func (p *Plane) fail(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stopping:
		return
	default:
	}
	p.failOnce.Do(func() {
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w; make room on the disk of %s and start the cluster again: it loses nothing", err, p.dir)
		}
		p.err = fmt.Errorf("%s: %w; see %s", name, err, p.o.LogFile)
		close(p.failed)
	})
}

// shutdown stops the components from the top down, so that each keeps what it needs. Every stage has a time limit.
func (p *Plane) shutdown() {
	p.stopComponents(clientsShutdown, controllerManager, scheduler)
	p.stopComponents(apiserverShutdown, apiserver)
	if p.listener != nil {
		p.listener.shut()
	}
	if p.etcd != nil {
		p.etcd.stop(etcdShutdown)
	}
	closeLog()
	if p.release != nil {
		p.release()
	}
}

// Stop stops the control plane and waits until it has ended: at most five seconds, or until ctx ends. The data stays.
// Stop is idempotent.
func (p *Plane) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.stopOnce.Do(func() { close(p.stopping) })
	p.mu.Unlock()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop control plane: %w", context.Cause(ctx))
	}
}

// Done returns a channel that is closed when the control plane has ended, by Stop or by a failure.
func (p *Plane) Done() <-chan struct{} { return p.done }

// Err returns the failure that ended the control plane; nil while it runs and after Stop.
func (p *Plane) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
