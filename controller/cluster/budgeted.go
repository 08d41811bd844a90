package cluster

// Budgeted is how many of a pool's machines its budgets are about, and how many of those count against them now.
func (w *World) Budgeted(pool string) (machines, going int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh(w.clock.Now())
	u := w.out.usage[pool]
	return u.budgeted, u.going
}
