package record

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// decisionDelay is how long to wait for the cycle that decided a removal before recording it as made elsewhere.
	decisionDelay = 2 * time.Second
	// forgetAfter is how long a deleted NodeClaim is remembered if no cycle reports its launch.
	forgetAfter = 10 * time.Minute
)

// Tracker turns reconcile cycles and observed NodeClaims, which arrive in any order, into entries, each exactly once.
// It must not be used concurrently.
type Tracker struct {
	claims   map[string]*claimHistory // by NodeClaim
	commands map[string]string        // decisions of commands in progress, by command ID
	reasons  map[model.PodKey]string  // why a pod is unschedulable
	broken   string                   // the last violation of a plan
	decided  map[string]time.Time     // times of decisions that may still have outcomes, by ID
	swept    time.Time
}

// claimHistory is what is known of a NodeClaim.
type claimHistory struct {
	launch, removal string // IDs of decisions
	readyReported   bool
	nodeName        string
	ready           time.Time
	node            RemovedNode // of a claim that is leaving, or that was ready before its launch was reported
	method, why     string      // of the removal; what the deleter says takes precedence over observations
	deletedByUs     bool        // method and why come from the deleter
	leavingSince    time.Time   // set while no decision about the removal is known
	goneAt          time.Time   // set if it was deleted before its launch was reported
}

// NewTracker returns a Tracker that knows nothing yet.
func NewTracker() *Tracker {
	return &Tracker{
		claims: map[string]*claimHistory{}, commands: map[string]string{}, reasons: map[model.PodKey]string{},
		decided: map[string]time.Time{},
	}
}

// Replay continues at the end of a log, which is passed piece by piece, oldest first.
func (t *Tracker) Replay(log []Entry) {
	for _, e := range log {
		if e.Decision != nil {
			t.note(e.Decision)
			continue
		}
		o := e.Outcome
		switch l := t.claims[o.Claim]; o.Kind {
		case Ready:
			if l != nil && l.launch == o.Of {
				l.readyReported = true
			}
		case Terminated:
			if l != nil && (l.launch == o.Of || l.removal == o.Of) {
				delete(t.claims, o.Claim)
			}
		case RemovalStarted, Kept:
			for command, of := range t.commands {
				if of == o.Of && o.Kind == Kept {
					t.undone(command)
				} else if of == o.Of {
					delete(t.commands, command)
				}
			}
		}
	}
	t.swept = time.Time{}
	t.sweep(t.swept.Add(time.Hour))
}

// note remembers which NodeClaims a decision is about.
func (t *Tracker) note(d *Decision) {
	t.decided[d.ID] = d.Time
	for _, m := range d.Removed {
		if m.Claim != "" {
			l := t.claim(m.Claim)
			l.removal, l.leavingSince = d.ID, time.Time{}
		}
	}
	for _, b := range d.Launched {
		if b.Claim != "" {
			l := t.claim(b.Claim)
			l.launch, l.readyReported = d.ID, false
		}
	}
	if d.Command != "" {
		t.commands[d.Command] = d.ID
	}
}

func (t *Tracker) claim(claim string) *claimHistory {
	l := t.claims[claim]
	if l == nil {
		l = &claimHistory{}
		t.claims[claim] = l
	}
	return l
}

// Open returns the known NodeClaims that may still have outcomes.
func (t *Tracker) Open() []string {
	var out []string
	for claim, l := range t.claims {
		if l.goneAt.IsZero() {
			out = append(out, claim)
		}
	}
	slices.Sort(out)
	return out
}

// Cycle returns the entries for a cycle that ended at now.
func (t *Tracker) Cycle(turn Cycle, now time.Time) []Entry {
	w := &writer{Cycle: turn}
	var decisions []*Decision
	for i := range turn.Plan.Launches {
		l := &turn.Plan.Launches[i]
		if claim := turn.Claims[l.ID]; claim != "" && (t.claims[claim] == nil || t.claims[claim].launch == "") {
			decisions = append(decisions, w.launch(l, claim))
		}
	}
	for i := range turn.Plan.Removals {
		if r := &turn.Plan.Removals[i]; slices.Contains(turn.Removed, r.Claim) {
			decisions = append(decisions, w.removal(r))
		}
	}
	for i := range turn.Plan.Commands {
		c := &turn.Plan.Commands[i]
		begun := slices.Contains(turn.Begun, c.ID) ||
			slices.ContainsFunc(c.Launches, func(l model.Launch) bool { return turn.Claims[l.ID] != "" })
		if begun && t.commands[c.ID] == "" {
			decisions = append(decisions, w.command(c))
		}
	}
	decisions = append(decisions, t.unschedulable(w)...)
	if bad := slices.Concat(turn.Bad, []string{""})[0]; bad != t.broken {
		if t.broken = bad; bad != "" {
			decisions = append(decisions, w.decision(Broken, "a plan failed its check and was not applied: "+bad, bad))
		}
	}
	var out []Entry
	for _, d := range decisions {
		out = append(out, Entry{Decision: d})
		t.note(d)
		for _, b := range d.Launched {
			out = append(out, t.catchUp(b.Claim)...)
		}
	}
	out = append(out, t.ended(turn, now)...)
	t.sweep(now)
	return out
}

// ended returns the entries for commands that ended in a cycle.
func (t *Tracker) ended(turn Cycle, now time.Time) []Entry {
	var out []Entry
	for _, id := range turn.Finished {
		if of := t.commands[id]; of != "" {
			out = append(out, t.outcome(Outcome{Of: of, Kind: RemovalStarted}, now))
			delete(t.commands, id)
		}
	}
	for _, u := range turn.Undone {
		if of := t.commands[u.Command]; of != "" {
			out = append(out, t.outcome(Outcome{Of: of, Kind: Kept, Text: cut(u.Why)}, now))
			t.undone(u.Command)
		}
	}
	return out
}

// undone forgets a command whose nodes stay.
func (t *Tracker) undone(command string) {
	of := t.commands[command]
	for _, l := range t.claims {
		if of != "" && l.removal == of {
			l.removal = ""
		}
	}
	delete(t.commands, command)
}

// unschedulable returns the new reasons why pods are unschedulable.
func (t *Tracker) unschedulable(w *writer) []*Decision {
	if len(w.Plan.Unplaced) == 0 && (len(t.reasons) == 0 || len(w.Bad) > 0) {
		return nil
	}
	before := t.reasons
	t.reasons = make(map[model.PodKey]string, len(w.Plan.Unplaced))
	for i := range w.Snapshot.Pending { // a plan that leaves out pods keeps their reasons
		k := w.Snapshot.Pending[i].PodKey
		if key, known := before[k]; known && len(w.Bad) > 0 {
			t.reasons[k] = key
		}
	}
	return w.unschedulable(func(pod model.PodKey, key string) bool {
		t.reasons[pod] = key
		return before[pod] == key
	})
}

// outcome sets the time of an outcome and the seconds since its decision.
func (t *Tracker) outcome(o Outcome, at time.Time) Entry {
	o.Time = at.UTC()
	if since, ok := t.decided[o.Of]; ok && at.After(since) {
		o.Seconds = at.Sub(since).Round(100 * time.Millisecond).Seconds()
	}
	return Entry{Outcome: &o}
}

// NewLost returns an entry which says that something could not be recorded.
func NewLost(why string, now time.Time) Entry {
	return Entry{Decision: &Decision{ID: identity(now, Lost), Time: now.UTC(), Kind: Lost, Why: cut(why)}}
}

// sweep forgets everything that can have no more outcomes.
func (t *Tracker) sweep(now time.Time) {
	if now.Sub(t.swept) < time.Minute {
		return
	}
	t.swept = now
	open := map[string]bool{}
	for claim, l := range t.claims {
		if !l.goneAt.IsZero() && now.Sub(l.goneAt) > forgetAfter {
			delete(t.claims, claim)
			continue
		}
		open[l.launch], open[l.removal] = true, true
	}
	for _, id := range t.commands {
		open[id] = true
	}
	for id := range t.decided {
		if !open[id] {
			delete(t.decided, id)
		}
	}
}
