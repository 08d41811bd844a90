package image

import (
	"context"
	"sync"
)

// flights make sure that a file of the store is made only once, no matter how many ask for it at the same time. The
// work continues while anybody waits for it: the first one may leave without spoiling it for the others.
type flights struct {
	store  *store
	mu     sync.Mutex
	byName map[string]*flight
}

type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	err     error
}

// do returns with the file held for the caller. If there is none it is made by fill, which holds it once, as
// store.create does.
func (fs *flights) do(ctx context.Context, name string, fill func(ctx context.Context) error) error {
	fs.mu.Lock()
	f := fs.byName[name]
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
	case <-f.done: // at the same moment: the file is held for this caller
		if f.err == nil {
			fs.store.release(name)
		}
	default:
		if f.waiters--; f.waiters == 0 {
			f.cancel()
			delete(fs.byName, name) // the next caller begins anew
		}
	}
	return context.Cause(ctx)
}

func (fs *flights) start(ctx context.Context, name string, fill func(ctx context.Context) error) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), cancel: cancel}
	fs.byName[name] = f
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
		if fs.byName[name] == f {
			delete(fs.byName, name)
		}
		close(f.done)
	}()
	return f
}
