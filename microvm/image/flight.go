package image

import (
	"context"
	"sync"
)

// flights see to it that a file of the store is made once, however many ask for it. The work goes on while anybody
// waits for it: who asked first may leave without spoiling it for the rest.
type flights struct {
	store *store
	mu    sync.Mutex
	under map[string]*flight
}

type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	err     error
}

// do returns with the file held for the caller, made by fill (which holds it once, as store.create does) if there was
// none.
func (fs *flights) do(ctx context.Context, name string, fill func(ctx context.Context) error) error {
	fs.mu.Lock()
	f := fs.under[name]
	if f == nil {
		if fs.store.hold(name) {
			fs.mu.Unlock()
			return nil
		}
		f = fs.start(ctx, name, fill)
	}
	f.waiters++
	fs.mu.Unlock()

	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	select {
	case <-f.done: // in the same moment: it is held for us
		if f.err == nil {
			fs.store.release(name)
		}
	default:
		if f.waiters--; f.waiters == 0 {
			f.cancel()
			delete(fs.under, name) // who comes now begins anew
		}
	}
	return context.Cause(ctx)
}

func (fs *flights) start(ctx context.Context, name string, fill func(ctx context.Context) error) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), cancel: cancel}
	fs.under[name] = f
	go func() {
		defer cancel()
		err := fill(ctx)
		fs.mu.Lock()
		defer fs.mu.Unlock()
		if err == nil {
			for range f.waiters {
				fs.store.hold(name)
			}
			fs.store.release(name) // fill's own
		}
		f.err = err
		if fs.under[name] == f {
			delete(fs.under, name)
		}
		close(f.done)
	}()
	return f
}
