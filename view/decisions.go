package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/explain/record"
)

// mostEntries is how many entries of the log of decisions are kept; of a longer log, the oldest pieces are dropped.
const mostEntries = 30_000

// log is the kept part of the log of decisions. It is folded into records on demand.
type log struct {
	pieces  map[string]piece
	version uint64 // counts changes
	none    string // why there are no decisions

	folded  uint64 // the version of records
	records []record.Record
	ledger  record.Ledger
	at      time.Time // the time of ledger
	of      uint64    // the version of ledger

	decisions orderOf[*record.Record]
	savings   orderOf[*record.Saving]
}

type piece struct {
	place   int64
	entries []record.Entry
}

// SetPiece replaces a piece of the log of decisions. Its place counts from 1; without entries, the piece is removed.
func (m *Model) SetPiece(name string, place int64, entries []record.Entry) {
	defer m.change()()
	l := &m.log
	if l.version++; len(entries) == 0 {
		delete(l.pieces, name)
		return
	}
	if l.pieces == nil {
		l.pieces = map[string]piece{}
	}
	l.pieces[name] = piece{place, entries}
	kept := 0
	for _, name := range slices.Backward(l.names()) {
		if kept += len(l.pieces[name].entries); kept > mostEntries && kept > len(l.pieces[name].entries) {
			delete(l.pieces, name)
		}
	}
}

// NoDecisions sets why no decisions can be shown; "" clears it.
func (m *Model) NoDecisions(why string) {
	defer m.change()()
	m.log.none = why
}

// names returns the names of the pieces, oldest first.
func (l *log) names() []string {
	return slices.SortedFunc(maps.Keys(l.pieces),
		func(a, b string) int { return cmp.Compare(l.pieces[a].place, l.pieces[b].place) })
}

// fold returns the log's records, and folds them first if the log has changed.
func (l *log) fold() []record.Record {
	if l.folded != l.version {
		var all []record.Entry
		for _, name := range l.names() {
			all = append(all, l.pieces[name].entries...)
		}
		l.records, l.folded = record.Fold(all), l.version
	}
	return l.records
}

// About is the object whose decisions are requested. The zero value stands for all objects.
type About struct {
	Kind, Name string // as in record.Of: node, nodeclaim, nodepool, or pod and namespace/name
	// Claim is the NodeClaim of a node. If it is set, decisions about an earlier node of the same name are left out.
	Claim string
}

// String returns KIND/NAME, "" for all objects.
func (a About) String() string { return strings.Trim(a.Kind+"/"+a.Name, "/") }

// about returns the records about an object, oldest first.
func (l *log) about(a About) []record.Record {
	all := l.fold()
	if a == (About{}) {
		return all
	}
	if a.Claim != "" {
		return record.Of(all, "nodeclaim", a.Claim)
	}
	return record.Of(all, a.Kind, a.Name)
}

// Decisions returns a page of the decisions about an object, newest first unless the query sorts otherwise. Its rows
// must not be changed.
func (m *Model) Decisions(about About, q Query) Page[*record.Record] {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &m.log
	o := &l.decisions
	if q.Group = about.String() + " " + about.Claim; !o.fresh(l.version, q) {
		records := l.about(about)
		filter := ParseFilter(q.Filter)
		var ranks []rank[*record.Record]
		for i := range records {
			r := &records[i]
			text := func() string {
				return strings.ToLower(string(r.Kind) + "\n" + ReasonOf(r) + "\n" + r.ID + "\n" + r.Line())
			}
			if len(filter.words) > 0 && !filter.matches(text(), func(key string) string { return decisionField(r, key) }) {
				continue
			}
			by := rank[*record.Record]{of: r, name: r.ID, number: -seconds(r.Time)}
			if q.Sort.Key == SortSaves {
				by.number = r.SavesPerHour
			}
			ranks = append(ranks, by)
		}
		sorted(ranks, q.Sort)
		for i := range ranks {
			o.lines = append(o.lines, lineOf[*record.Record]{key: ranks[i].name, of: ranks[i].of})
		}
		o.of, o.shown = len(records), len(ranks)
	}
	return pageOf(o, q.Window)
}

// SortSaves orders decisions by the dollars they save an hour, and savings by dollars.
const SortSaves = "saves"

func decisionField(r *record.Record, key string) string {
	switch key {
	case "decision", "kind":
		return string(r.Kind)
	case "reason":
		return ReasonOf(r)
	case FieldPool:
		for _, m := range r.Removed {
			return m.Pool
		}
		for _, b := range r.Launched {
			return b.Pool
		}
	}
	return ""
}

// ReasonOf returns the reason for which nodes are removed, or the rule that prevents it; "-" if there is neither.
func ReasonOf(r *record.Record) string { return cmp.Or(r.Method, r.Rule, "-") }

// Decided returns how many decisions are kept and, if known, why there are none.
func (m *Model) Decided() (n int, none string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.log.fold()), m.log.none
}

// Decision returns the decision with an ID, nil if it is not kept. It must not be changed.
func (m *Model) Decision(id string) *record.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.log.fold()
	if i := slices.IndexFunc(all, func(r record.Record) bool { return r.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}

// ledgerAt returns the savings until now. It adds them up at most once a second, unless the log has changed.
func (l *log) ledgerAt(now time.Time) *record.Ledger {
	if records := l.fold(); l.of != l.version || !l.at.Equal(now.Truncate(time.Second)) {
		l.of, l.at = l.version, now.Truncate(time.Second)
		l.ledger = record.Savings(records, now, record.DefaultHorizon)
	}
	return &l.ledger
}

// Ledger returns the savings until now, without the list of them.
func (m *Model) Ledger(now time.Time) record.Ledger {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := *m.log.ledgerAt(now)
	l.Savings = nil
	return l
}

// Savings returns a page of the savings, newest first unless the query sorts otherwise. Its rows must not be changed.
func (m *Model) Savings(now time.Time, q Query) Page[*record.Saving] {
	m.mu.Lock()
	defer m.mu.Unlock()
	filter := ParseFilter(q.Filter)
	var ranks []rank[*record.Saving]
	all := m.log.ledgerAt(now).Savings
	for i := range all {
		s := &all[i]
		field := func(key string) string {
			return map[string]string{"reason": s.Method, FieldStatus: s.State, FieldPool: strings.Join(s.Pools, ",")}[key]
		}
		if len(filter.words) > 0 &&
			!filter.matches(strings.ToLower(s.Method+"\n"+s.State+"\n"+s.What+"\n"+strings.Join(s.Pools, "\n")), field) {
			continue
		}
		by := rank[*record.Saving]{of: s, name: s.Decision, number: -seconds(s.Time)}
		if q.Sort.Key == SortSaves {
			by.number = s.Dollars
		}
		ranks = append(ranks, by)
	}
	sorted(ranks, q.Sort)
	o := &m.log.savings
	o.lines, o.of, o.shown = o.lines[:0], len(all), len(ranks)
	for i := range ranks {
		o.lines = append(o.lines, lineOf[*record.Saving]{key: ranks[i].name, of: ranks[i].of})
	}
	return pageOf(o, q.Window)
}

// pageOf returns the visible part of an order.
func pageOf[T any](o *orderOf[T], w Window) Page[T] {
	p := Page[T]{Lines: len(o.lines), Of: o.of, Shown: o.shown}
	var seen []lineOf[T]
	p.Window, seen = window(o.lines, w)
	p.Rows = make([]T, len(seen))
	for i, l := range seen {
		p.Rows[i] = l.of
	}
	return p
}
