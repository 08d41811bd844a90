package scheduler

import (
	"context"
	"sync"
)

// Watchers are those who watch a host's microVMs: what a Host's Watch is made of. The zero value has none.
type Watchers struct {
	mu   sync.Mutex
	by   map[int]func(id string)
	next int // key of by
}

// Watch tells changed of what is told until ctx is done, and before that of the host and of all microVMs that are there: they may have
// changed before somebody watched.
func (w *Watchers) Watch(ctx context.Context, changed func(id string), there func() []string) {
	w.mu.Lock()
	if w.by == nil {
		w.by = map[int]func(string){}
	}
	key := w.next
	w.next++
	w.by[key] = changed
	w.mu.Unlock()
	changed("")
	for _, id := range there() {
		changed(id)
	}
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.by, key)
}

// Tell tells of a microVM, or with "" of the host.
func (w *Watchers) Tell(id string) {
	w.mu.Lock()
	all := make([]func(string), 0, len(w.by))
	for _, changed := range w.by {
		all = append(all, changed)
	}
	w.mu.Unlock()
	for _, changed := range all {
		changed(id)
	}
}
