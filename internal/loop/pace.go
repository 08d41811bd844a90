package loop

import "time"

// How long changes are gathered before a plan is made of them.
const (
	firstQuiet = 10 * time.Millisecond  // without another change after the first one
	mostQuiet  = 60 * time.Millisecond  // the longer changes keep coming, the longer the quiet must be
	mostWait   = 300 * time.Millisecond // after the first change, however many still come
)

// pace gathers changes: it says when the next plan is due. The zero value waits for nothing.
type pace struct {
	mostQuiet, mostWait time.Duration // shorter than the constants, or 0

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

// due is when a plan is to be made of what changed, and whether anything did. The quiet asked for is a third of the time
// that changes have been coming, so that a lone pod is answered at once and a rush of a thousand with few plans.
func (p *pace) due() (time.Time, bool) {
	if !p.waiting {
		return time.Time{}, false
	}
	quiet := shorter(min(max(p.last.Sub(p.first)/3, firstQuiet), mostQuiet), p.mostQuiet)
	at := p.last.Add(quiet)
	if limit := p.first.Add(shorter(mostWait, p.mostWait)); at.After(limit) {
		at = limit
	}
	return at, true
}

// settled starts anew after a plan.
func (p *pace) settled() { *p = pace{mostQuiet: p.mostQuiet, mostWait: p.mostWait} }

// shorter is the shorter of what is usual and of what is asked for; 0 asks for nothing.
func shorter(usual, asked time.Duration) time.Duration {
	if asked > 0 && asked < usual {
		return asked
	}
	return usual
}
