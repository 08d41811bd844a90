package region

import (
	"context"
	"slices"
	"sync"
)

// EventKind is the kind of change of an instance.
type EventKind string

// Changes of an instance. With a boot time below two seconds, EventBooted comes before EventRunning.
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

// watcher queues events without bound: a slow reader loses no events and delays no one.
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

// Watch delivers every existing instance (as created, booted, shutting down or terminated), then every change, in
// order, until ctx is done; then it closes the channel.
func (s *instances) Watch(ctx context.Context) <-chan Event {
	w := &watcher{wake: make(chan struct{}, 1)}
	s.mu.Lock()
	for _, i := range s.order {
		w.add(Event{Kind: i.lastEvent(), Instance: i.Instance})
	}
	s.watchers = append(s.watchers, w)
	s.mu.Unlock()
	out := make(chan Event)
	go func() {
		defer close(out)
		defer s.unwatch(w)
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

func (s *instances) unwatch(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = slices.DeleteFunc(s.watchers, func(x *watcher) bool { return x == w })
}

// publish queues an event for every watcher.
func (s *instances) publish(kind EventKind, i *instance) {
	s.changed(i)
	for _, w := range s.watchers {
		w.add(Event{Kind: kind, Instance: i.Instance})
	}
}
