package plane

import "context"

// CheckObjects exposes the check that runs when a start takes long.
func (p *Plane) CheckObjects(ctx context.Context) error { return p.etcd.checkObjects(ctx) }

// Go runs a function in a goroutine of the control plane, which may be stopped.
func (p *Plane) Go(f func()) {
	go func() {
		p.own()
		f()
	}()
}

// Running returns the control plane that this process started last, which may not be ready yet.
func Running() *Plane { return running.Load() }
