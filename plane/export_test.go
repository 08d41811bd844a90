package plane

import "context"

// CheckObjects lets tests ask what is asked when a start takes long.
func (p *Plane) CheckObjects(ctx context.Context) error { return p.etcd.checkObjects(ctx) }

// Go lets tests run a function in a goroutine of the control plane's, which may be a stopped one.
func (p *Plane) Go(f func()) {
	go func() {
		p.own()
		f()
	}()
}

// Running returns the control plane of this process that was started last, which may not be ready yet.
func Running() *Plane { return running.Load() }
