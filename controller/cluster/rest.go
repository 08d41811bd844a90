package cluster

import "time"

// Rest keeps machines of a pool from being replaced until then: a replacement could not be had a moment ago.
func (w *World) Rest(pool string, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resting == nil {
		w.resting = map[string]time.Time{}
	}
	if now := w.clock.Now(); until.After(now) && until.After(w.resting[pool]) {
		w.resting[pool] = until
		w.clock.AfterFunc(until.Sub(now), w.poke)
	}
}

// Resting reports whether machines of a pool are not to be replaced now.
func (w *World) Resting(pool string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rests(pool, w.clock.Now())
}

func (w *World) rests(pool string, now time.Time) bool {
	until, known := w.resting[pool]
	if known && !now.Before(until) {
		delete(w.resting, pool)
	}
	return known && now.Before(until)
}
