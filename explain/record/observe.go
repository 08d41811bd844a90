package record

import (
	"slices"
	"time"
)

// ClaimState is a NodeClaim as observed now.
type ClaimState struct {
	Claim   string
	Node    string
	Ready   time.Time // when its Node was initialized, zero if it is not
	Leaving bool      // it is being deleted, or the cloud announced an interruption
	Method  string    // Decision.Method, if the claim tells
	Why     string    // as a sentence
	// Describe describes the node. Observe calls it only when it records the description, and does not keep it.
	Describe func() RemovedNode
}

// Observe returns the entries for what is new about a NodeClaim.
func (t *Tracker) Observe(s ClaimState, now time.Time) []Entry {
	l := t.claim(s.Claim)
	if s.Node != "" {
		l.nodeName = s.Node
	}
	if !s.Ready.IsZero() && l.ready.IsZero() && !l.readyReported {
		l.ready, l.node = s.Ready, s.Describe()
	}
	if s.Leaving && l.removal == "" && l.leavingSince.IsZero() {
		l.leavingSince, l.node = now, s.Describe()
	}
	if s.Leaving && !l.deletedByUs {
		l.method, l.why = s.Method, s.Why
	}
	return t.ready(s.Claim, l)
}

// Deleting notes why this process deletes a NodeClaim, which the NodeClaim itself does not say.
func (t *Tracker) Deleting(claim, method, why string) {
	l := t.claim(claim)
	l.method, l.why, l.deletedByUs = method, why, true
}

// Deleted returns the entries for a NodeClaim that no longer exists; why may be "".
func (t *Tracker) Deleted(claim, why string, now time.Time) []Entry {
	l := t.claims[claim]
	if l == nil {
		return nil
	}
	var out []Entry
	if l.removal == "" && !l.leavingSince.IsZero() {
		out = append(out, t.terminated(claim, l))
	}
	of := l.removal
	if of == "" {
		of = l.launch
	}
	if of == "" { // a cycle may still report its launch
		l.goneAt = now
		return out
	}
	delete(t.claims, claim)
	return append(out, t.outcome(Outcome{Of: of, Kind: Terminated, Claim: claim, Node: l.nodeName, Text: cut(why)}, now))
}

// catchUp returns the entries for what happened to a NodeClaim before its launch was reported.
func (t *Tracker) catchUp(claim string) []Entry {
	l := t.claims[claim]
	if l == nil {
		return nil
	}
	out := t.ready(claim, l)
	if !l.goneAt.IsZero() {
		out = append(out, t.Deleted(claim, "", l.goneAt)...)
	}
	return out
}

// ready reports once that a node accepts pods.
func (t *Tracker) ready(claim string, l *claimHistory) []Entry {
	if l.readyReported || l.launch == "" || l.ready.IsZero() {
		return nil
	}
	l.readyReported = true
	given := l.node.Offer
	return []Entry{t.outcome(Outcome{Of: l.launch, Kind: Ready, Claim: claim, Node: l.nodeName, Offer: &given}, l.ready)}
}

// Due returns the entries for nodes that have been leaving for decisionDelay without a cycle reporting their removal.
// more reports whether other nodes are still waiting.
func (t *Tracker) Due(now time.Time) (out []Entry, more bool) {
	var due []string
	for claim, l := range t.claims {
		switch {
		case l.leavingSince.IsZero() || l.removal != "":
		case now.Sub(l.leavingSince) < decisionDelay:
			more = true
		default:
			due = append(due, claim)
		}
	}
	slices.Sort(due)
	for _, claim := range due {
		out = append(out, t.terminated(claim, t.claims[claim]))
	}
	return out, more
}

// terminated returns the decision, made outside the cycle, to remove a node.
func (t *Tracker) terminated(claim string, l *claimHistory) Entry {
	at := l.leavingSince.UTC()
	m := l.node
	m.Claim = claim
	if m.Node == "" {
		m.Node = l.nodeName
	}
	d := &Decision{
		ID: identity(at, Terminate, claim), Time: at, Kind: Terminate, Method: l.method, Why: cut(l.why),
		Removed: []RemovedNode{m},
	}
	t.note(d)
	return Entry{Decision: d}
}
