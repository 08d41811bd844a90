package region

import (
	"context"
	"sync"
)

// EventKind says what became of an instance.
type EventKind string

// What becomes of instances. An instance that boots before it runs (a boot time under two seconds) says so in that order.
const (
	EventCreated      EventKind = "created"
	EventRunning      EventKind = "running"
	EventBooted       EventKind = "booted"
	EventShuttingDown EventKind = "shutting-down"
	EventTerminated   EventKind = "terminated"
)

// Event is a change of an instance, with the instance as it was then.
type Event struct {
	Kind     EventKind
	Instance Instance
}

// watcher queues events without bound, so that a slow reader loses nothing and holds nobody up.
type watcher struct {
	mu    sync.Mutex
	queue []Event
	wake  chan struct{}
}

func (w *watcher) add(e Event) {
	w.mu.Lock()
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queue
	w.queue = nil
	return q
}

// Watch delivers every instance there is (as booted or created, or as shutting-down or terminated), then every change, in
// order, until ctx is done; then the channel is closed.
func (r *Region) Watch(ctx context.Context) <-chan Event {
	w := &watcher{wake: make(chan struct{}, 1)}
	r.mu.Lock()
	for _, id := range r.order {
		i := r.instances[id]
		w.add(Event{Kind: i.lastEvent(), Instance: *i})
	}
	r.watchers = append(r.watchers, w)
	r.mu.Unlock()
	out := make(chan Event)
	go func() {
		defer close(out)
		defer r.unwatch(w)
		for {
			for _, e := range w.take() {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (i *Instance) lastEvent() EventKind {
	switch {
	case i.State == Terminated:
		return EventTerminated
	case i.State == ShuttingDown:
		return EventShuttingDown
	case i.Booted:
		return EventBooted
	}
	return EventCreated
}

func (r *Region) unwatch(w *watcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, x := range r.watchers {
		if x == w {
			r.watchers = append(r.watchers[:n:n], r.watchers[n+1:]...)
			return
		}
	}
}

// tell queues an event for every watcher. The caller holds the lock.
func (r *Region) tell(e Event) {
	for _, w := range r.watchers {
		w.add(e)
	}
}
