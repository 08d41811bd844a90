package plane

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// shutdownLimits bound each stage of the way down; together they stay below five seconds.
const (
	clientsShutdown   = 1500 * time.Millisecond // controllers and scheduler, together
	apiserverShutdown = 2500 * time.Millisecond
	etcdShutdown      = 900 * time.Millisecond
)

// supervise takes everything down when asked to, or when a part failed.
func (p *Plane) supervise() {
	select {
	case <-p.stopping:
	case <-p.failed:
		<-p.settled()
	}
	p.shutdown()
	inUse.Unlock() // before anybody hears that it is down, who may start the next one at once
	close(p.done)
}

// settled is closed once nobody builds the plane any more: at Stop, or when a running plane fails.
func (p *Plane) settled() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parts[clientsReady] != nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return p.stopping
}

// fail notes the first failure of a part and begins the way down.
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

// shutdown goes from the top down, so that nobody misses what it still needs; each stage has its limit.
func (p *Plane) shutdown() {
	p.stopParts(clientsShutdown, controllerManager, scheduler)
	p.stopParts(apiserverShutdown, apiserver)
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

// Stop takes the control plane down and waits until it is: at most five seconds, or until ctx ends. The data stays.
// It is idempotent.
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

// Done is closed when the control plane has ended, by Stop or by a failure.
func (p *Plane) Done() <-chan struct{} { return p.done }

// Err is what made the control plane end by itself; nil while it runs and after Stop.
func (p *Plane) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
