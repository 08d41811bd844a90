package plane

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// The components. They run until they are stopped.
const (
	apiserver         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	clientsReady      = "ready" // not a component: present once all of them are ready
)

// component is a component of Kubernetes that runs in its own goroutine.
type component struct {
	cancel context.CancelFunc
	done   chan struct{}
}

var errEnded = errors.New("ended by itself")

// run starts a component. If it ends before it is stopped, by an error, a panic in its main goroutine or klog.Fatal,
// the whole control plane ends.
func (p *Plane) run(name string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &component{cancel: cancel, done: make(chan struct{})}
	p.mu.Lock()
	p.components[name] = c
	p.mu.Unlock()
	go func() {
		defer close(c.done)
		p.own()
		err := errEnded // kept if the goroutine exits
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
				fmt.Fprintf(logs, "%s: %v\n%s\n", name, err, debug.Stack())
			}
			if ctx.Err() == nil {
				p.fail(name, err)
			}
		}()
		if e := f(ctx); e != nil {
			err = e
		}
	}()
}

// stopComponents stops components and waits for them, but no longer than limit.
func (p *Plane) stopComponents(limit time.Duration, names ...string) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	var running []*component
	p.mu.Lock()
	for _, n := range names {
		if c := p.components[n]; c != nil {
			c.cancel()
			running = append(running, c)
		}
	}
	p.mu.Unlock()
	for _, c := range running {
		select {
		case <-c.done:
		case <-deadline.C:
			return
		}
	}
}

// await polls ok until it returns nil, the plane fails or ctx ends. what names the subject in errors.
func (p *Plane) await(ctx context.Context, what string, ok func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.failed:
			return p.Err()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w); see %s", what, context.Cause(ctx), err, p.o.LogFile)
		case <-tick.C:
		}
	}
}
