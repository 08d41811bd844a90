package world

import "time"

// nominated is how long a machine stays needed after the last plan that gave a pod a place there: between a pod's eviction
// and the next of its name there is an instant in which nobody waits (reference karpenter.md §8.2, at least 10 s).
const nominated = 10 * time.Second

// nominees are the machines that plans put pods on, by the names that snapshots have for them: zero while the newest plan
// does, else the end of the time for which they still count.
type nominees map[string]time.Time

// Nominate says on which machines the newest plan places pods.
func (w *World) Nominate(names map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	if w.nominees == nil {
		w.nominees = nominees{}
	}
	for name, until := range w.nominees {
		switch {
		case names[name]:
		case until.IsZero():
			w.nominees[name] = now.Add(nominated)
			w.machines.stale = true
		case !now.Before(until):
			delete(w.nominees, name)
		}
	}
	for name := range names {
		w.nominees[name] = time.Time{}
	}
}
