package admission

import (
	"context"
	"sync"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// fresh reads the profiles from the API server itself, for a pod that none of the cached ones selects: its profile
// may have been made by the same "kubectl apply", a moment ago, and the pod would run on a shared node for good.
// However many pods come at once, one reading is under way and one waits: a pod never gets the answer to a question
// that was asked before it came.
type fresh struct {
	list func(context.Context) ([]*v1alpha1.FargateProfile, error)

	mu      sync.Mutex
	running bool
	next    *reading
}

// reading is one list and those who wait for it.
type reading struct {
	done     chan struct{}
	profiles []*v1alpha1.FargateProfile
	err      error
}

// profiles are those that were there when it was called, or later ones.
func (f *fresh) profiles(ctx context.Context) ([]*v1alpha1.FargateProfile, error) {
	f.mu.Lock()
	r := f.next
	if r == nil {
		r = &reading{done: make(chan struct{})}
		f.next = r
	}
	if !f.running {
		f.running = true
		go f.read(context.WithoutCancel(ctx)) // not this pod's alone
	}
	f.mu.Unlock()
	select {
	case <-r.done:
		return r.profiles, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read answers those who wait until nobody does.
func (f *fresh) read(ctx context.Context) {
	for {
		f.mu.Lock()
		r := f.next
		f.next = nil
		f.running = r != nil
		f.mu.Unlock()
		if r == nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, readWithin)
		r.profiles, r.err = f.list(limited)
		cancel()
		close(r.done)
	}
}
