package record

import (
	"slices"
	"time"
)

// Seen is a NodeClaim as it is now.
type Seen struct {
	Claim  string
	Node   string
	Ready  time.Time // when its Node was initialized, zero if it is not
	Leaves bool      // it goes, or the cloud said that it takes it away
	Method string    // as far as the claim says: Decision.Method
	Why    string    // in a sentence
	// Look says what the machine is and holds; it is called only when that is written down, within the call of See.
	Look func() Machine
}

// See makes the entries of what is new of a NodeClaim.
func (t *Tracker) See(s Seen, now time.Time) []Entry {
	l := t.life(s.Claim)
	if s.Node != "" {
		l.node = s.Node
	}
	if !s.Ready.IsZero() && l.ready.IsZero() && !l.told {
		l.ready, l.machine = s.Ready, s.Look()
	}
	if s.Leaves && l.leave == "" && l.leaving.IsZero() {
		l.leaving, l.machine = now, s.Look()
	}
	if s.Leaves && !l.deleted {
		l.method, l.why = s.Method, s.Why
	}
	return t.ready(s.Claim, l)
}

// Deleting notes what somebody of us deletes a NodeClaim for, which is not written on it.
func (t *Tracker) Deleting(claim, method, why string) {
	l := t.life(claim)
	l.method, l.why, l.deleted = method, why, true
}

// Went makes the entries of a NodeClaim that is not there any more; why is what there is to say of it.
func (t *Tracker) Went(claim, why string, now time.Time) []Entry {
	l := t.lives[claim]
	if l == nil {
		return nil
	}
	var out []Entry
	if l.leave == "" && !l.leaving.IsZero() {
		out = append(out, t.departs(claim, l))
	}
	of := l.leave
	if of == "" {
		of = l.launch
	}
	if of == "" { // a turn may be about to tell of it
		l.gone = now
		return out
	}
	delete(t.lives, claim)
	return append(out, t.outcome(Outcome{Of: of, What: Gone, Claim: claim, Node: l.node, Text: cut(why)}, now))
}

// caught is what had become of a NodeClaim before the decision was known that launched it.
func (t *Tracker) caught(claim string, now time.Time) []Entry {
	l := t.lives[claim]
	if l == nil {
		return nil
	}
	out := t.ready(claim, l)
	if !l.gone.IsZero() {
		out = append(out, t.Went(claim, "", l.gone)...)
	}
	return out
}

// ready says once that a machine takes pods.
func (t *Tracker) ready(claim string, l *life) []Entry {
	if l.told || l.launch == "" || l.ready.IsZero() {
		return nil
	}
	l.told = true
	given := l.machine.Offer
	return []Entry{t.outcome(Outcome{Of: l.launch, What: Ready, Claim: claim, Node: l.node, Offer: &given}, l.ready)}
}

// Due makes the entries of machines that go and of which no turn has told by now, and reports whether there are more
// to wait for.
func (t *Tracker) Due(now time.Time) (out []Entry, more bool) {
	var due []string
	for claim, l := range t.lives {
		switch {
		case l.leaving.IsZero() || l.leave != "":
		case now.Sub(l.leaving) < patience:
			more = true
		default:
			due = append(due, claim)
		}
	}
	slices.Sort(due)
	for _, claim := range due {
		out = append(out, t.departs(claim, t.lives[claim]))
	}
	return out, more
}

// departs is the decision that somebody else took.
func (t *Tracker) departs(claim string, l *life) Entry {
	at := l.leaving.UTC()
	m := l.machine
	m.Claim = claim
	if m.Node == "" {
		m.Node = l.node
	}
	d := &Decision{
		ID: identity(at, Depart, claim), Time: at, Kind: Depart, Method: l.method, Why: cut(l.why),
		Goes: []Machine{m},
	}
	t.follow(d)
	return Entry{Decision: d}
}
