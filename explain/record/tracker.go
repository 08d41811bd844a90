package record

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// patience is how long a machine that goes is given for the turn to come by which it was decided; forget is how long
// one is remembered that is gone and of which no turn has told.
const (
	patience = 2 * time.Second
	forget   = 10 * time.Minute
)

// Tracker makes entries of what it is told, each once: of turns of the loop, and of NodeClaims as they are seen. The
// two come in any order. It is for one goroutine at a time.
type Tracker struct {
	lives    map[string]*life        // by NodeClaim
	commands map[string]string       // those that are under way, by ID: their decisions
	said     map[model.PodKey]string // why a pod gets nothing
	broken   string                  // what was wrong with a plan last
	decided  map[string]time.Time    // when, by ID of decisions that something may still become of
	swept    time.Time
}

// life is what is known of a NodeClaim.
type life struct {
	launch, leave string // decisions
	told          bool   // that it is ready
	node          string
	ready         time.Time
	machine       Machine   // of one that goes, or of one that was ready before it was known who launched it
	method, why   string    // for which it goes; what it was deleted for counts for more than what can be seen of it
	deleted       bool      // method and why are what it was deleted for
	leaving       time.Time // since when it is seen to go and no decision is known
	gone          time.Time // when it was seen to be gone, if no decision is known that launched it
}

// NewTracker is one that knows nothing yet.
func NewTracker() *Tracker {
	return &Tracker{
		lives: map[string]*life{}, commands: map[string]string{}, said: map[model.PodKey]string{},
		decided: map[string]time.Time{},
	}
}

// Replay goes on where a log ends, piece by piece from the oldest to the newest.
func (t *Tracker) Replay(log []Entry) {
	for _, e := range log {
		if e.Decision != nil {
			t.follow(e.Decision)
			continue
		}
		o := e.Outcome
		switch l := t.lives[o.Claim]; o.What {
		case Ready:
			if l != nil && l.launch == o.Of {
				l.told = true
			}
		case Gone:
			if l != nil && (l.launch == o.Of || l.leave == o.Of) {
				delete(t.lives, o.Claim)
			}
		case Asked, Undone:
			for command, of := range t.commands {
				if of == o.Of && o.What == Undone {
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

// follow notes whose fate a decision is.
func (t *Tracker) follow(d *Decision) {
	t.decided[d.ID] = d.Time
	for _, m := range d.Goes {
		if m.Claim != "" {
			l := t.life(m.Claim)
			l.leave, l.leaving = d.ID, time.Time{}
		}
	}
	for _, b := range d.Comes {
		if b.Claim != "" {
			l := t.life(b.Claim)
			l.launch, l.told = d.ID, false
		}
	}
	if d.Command != "" {
		t.commands[d.Command] = d.ID
	}
}

func (t *Tracker) life(claim string) *life {
	l := t.lives[claim]
	if l == nil {
		l = &life{}
		t.lives[claim] = l
	}
	return l
}

// Open are the NodeClaims that something may still become of, by what is known.
func (t *Tracker) Open() []string {
	var out []string
	for claim, l := range t.lives {
		if l.gone.IsZero() {
			out = append(out, claim)
		}
	}
	slices.Sort(out)
	return out
}

// Turn makes the entries of a turn. now is when it was done.
func (t *Tracker) Turn(turn Turn, now time.Time) []Entry {
	w := &writer{Turn: turn}
	var decisions []*Decision
	for i := range turn.Plan.Launches {
		l := &turn.Plan.Launches[i]
		if claim := turn.Claims[l.ID]; claim != "" && (t.lives[claim] == nil || t.lives[claim].launch == "") {
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
	decisions = append(decisions, t.refused(w)...)
	if bad := slices.Concat(turn.Bad, []string{""})[0]; bad != t.broken {
		if t.broken = bad; bad != "" {
			decisions = append(decisions, w.decision(Broken, "a plan failed its check and was not applied: "+bad, bad))
		}
	}
	var out []Entry
	for _, d := range decisions {
		out = append(out, Entry{Decision: d})
		t.follow(d)
		for _, b := range d.Comes {
			out = append(out, t.caught(b.Claim, now)...)
		}
	}
	out = append(out, t.ended(turn, now)...)
	t.sweep(now)
	return out
}

// ended are the commands that came to their end in a turn.
func (t *Tracker) ended(turn Turn, now time.Time) []Entry {
	var out []Entry
	for _, id := range turn.Finished {
		if of := t.commands[id]; of != "" {
			out = append(out, t.outcome(Outcome{Of: of, What: Asked}, now))
			delete(t.commands, id)
		}
	}
	for _, u := range turn.Undone {
		if of := t.commands[u.Command]; of != "" {
			out = append(out, t.outcome(Outcome{Of: of, What: Undone, Text: cut(u.Why)}, now))
			t.undone(u.Command)
		}
	}
	return out
}

// undone lets the machines of a command stay.
func (t *Tracker) undone(command string) {
	of := t.commands[command]
	for _, l := range t.lives {
		if of != "" && l.leave == of {
			l.leave = ""
		}
	}
	delete(t.commands, command)
}

// refused are the reasons for which pods get nothing that are new.
func (t *Tracker) refused(w *writer) []*Decision {
	if len(w.Plan.Unplaced) == 0 && len(t.said) == 0 || len(w.Bad) > 0 {
		return nil
	}
	before := t.said
	t.said = make(map[model.PodKey]string, len(w.Plan.Unplaced))
	return w.refusals(func(pod model.PodKey, key string) bool {
		t.said[pod] = key
		return before[pod] == key
	})
}

// outcome dates what became of a decision.
func (t *Tracker) outcome(o Outcome, at time.Time) Entry {
	o.Time = at.UTC()
	if since, ok := t.decided[o.Of]; ok && at.After(since) {
		o.Seconds = at.Sub(since).Round(100 * time.Millisecond).Seconds()
	}
	return Entry{Outcome: &o}
}

// Missing says that something could not be kept.
func Missing(why string, now time.Time) Entry {
	return Entry{Decision: &Decision{ID: identity(now, Lost), Time: now.UTC(), Kind: Lost, Why: cut(why)}}
}

// sweep forgets what nothing will become of.
func (t *Tracker) sweep(now time.Time) {
	if now.Sub(t.swept) < time.Minute {
		return
	}
	t.swept = now
	open := map[string]bool{}
	for claim, l := range t.lives {
		if !l.gone.IsZero() && now.Sub(l.gone) > forget {
			delete(t.lives, claim)
			continue
		}
		open[l.launch], open[l.leave] = true, true
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
