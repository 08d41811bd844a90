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

// pace gathers changes: it says when the next plan is due. The zero value waits for nothing.
type pace struct {
	idle, most time.Duration // what is waited for instead, if somebody asked for it: 0 = nobody did

	first, last time.Time
	waiting     bool
}

// change notes that something changed.
func (p *pace) change(now time.Time) {
	if !p.waiting {
		p.waiting, p.first = true, now
	}
	p.last = now
}

// due is when a plan is to be made of what changed, and whether anything did. The quiet asked for is a third of the
// time that changes have been coming, so that a lone pod is answered at once and a rush of a thousand with few plans.
func (p *pace) due() (time.Time, bool) {
	if !p.waiting {
		return time.Time{}, false
	}
	quiet := min(max(p.last.Sub(p.first)/3, firstQuiet), mostQuiet)
	at, limit := p.last.Add(cmp.Or(p.idle, quiet)), p.first.Add(cmp.Or(p.most, mostWait))
	if at.After(limit) {
		at = limit
	}
	return at, true
}

// settled starts anew after a plan.
func (p *pace) settled() { *p = pace{idle: p.idle, most: p.most} }
