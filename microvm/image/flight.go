package image

import (
	"context"
	"sync"
)

// flights ensure that a file of the store is made only once, however many callers request it at the same time. The
// work continues while any caller waits for it: the first one may give up without affecting the others.
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

// do holds the file for the caller. If there is none, fill makes it and holds it once, as store.create does.
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
	case <-f.done: // done at the same moment: the file is held for this caller
		if f.err == nil {
			fs.store.release(name)
		}
	default:
		if f.waiters--; f.waiters == 0 {
			f.cancel()
			delete(fs.byName, name) // the next caller starts a new flight
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
			fs.store.release(name) // fill's own hold
		}
		f.err = err
		if fs.byName[name] == f {
			delete(fs.byName, name)
		}
		close(f.done)
	}()
	return f
}
