package plane

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// The parts that run until they are told to end.
const (
	apiserver         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	clientsReady      = "ready" // not a part: noted when all of them are ready
)

// part is a component running in its own goroutine.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
}

var errEnded = errors.New("ended by itself")

// run starts a part. A part that ends before it is told to, by an error, a panic in its main goroutine or klog.Fatal,
// ends the whole control plane.
func (p *Plane) run(name string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &part{cancel: cancel, done: make(chan struct{})}
	p.mu.Lock()
	p.parts[name] = c
	p.mu.Unlock()
	go func() {
		defer close(c.done)
		err := errEnded // stays if the goroutine exits
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

// stopParts tells parts to end and waits for them, no longer than limit.
func (p *Plane) stopParts(limit time.Duration, names ...string) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	var running []*part
	p.mu.Lock()
	for _, n := range names {
		if c := p.parts[n]; c != nil {
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

// await polls until ok says so, the plane fails or ctx ends. what names the thing waited for.
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
