package cycle

import (
	"cmp"
	"time"
)

// How long changes are gathered before a plan is made of them.
const (
	firstQuiet = 10 * time.Millisecond  // without another change after the first one
	mostQuiet  = 60 * time.Millisecond  // the longer changes keep coming, the longer the quiet must be
	mostWait   = 300 * time.Millisecond // after the first change, however many still come
)

// Pace gathers changes: it says when the next plan is due. At first none is.
type Pace struct {
	// Idle and Max replace the quiet that is waited for after a change, and the longest wait; 0 = they do not.
	Idle, Max time.Duration

	first, last time.Time
	waiting     bool
}

// Change notes that something changed.
func (p *Pace) Change(now time.Time) {
	if !p.waiting {
		p.waiting, p.first = true, now
	}
	p.last = now
}

// Due returns when a plan is to be made of what changed, and whether anything did. The quiet to wait for is a third of
// the time that changes have been coming, so that a lone pod is answered at once and a rush of a thousand with few plans.
func (p *Pace) Due() (time.Time, bool) {
	if !p.waiting {
		return time.Time{}, false
	}
	quiet := min(max(p.last.Sub(p.first)/3, firstQuiet), mostQuiet)
	at, limit := p.last.Add(cmp.Or(p.Idle, quiet)), p.first.Add(cmp.Or(p.Max, mostWait))
	if at.After(limit) {
		at = limit
	}
	return at, true
}

// Settled starts anew after a plan.
func (p *Pace) Settled() { *p = Pace{Idle: p.Idle, Max: p.Max} }
