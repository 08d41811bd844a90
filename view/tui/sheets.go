package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/objects"
)

// sheet is what covers the table.
type sheet int

const (
	noSheet     sheet = iota
	keysSheet         // all keys
	detailSheet       // everything about the selected row, with its events
	yamlSheet         // the YAML of its object
	logSheet          // the logs of its pod
)

// reading is what is being read, or has been read, from the cluster for a sheet.
type reading struct {
	number int // of the request; answers to earlier ones are dropped
	of     subject
	busy   bool
	since  time.Time
	lines  []string
	tail   bool // show the end of what is read
}

// read is the answer to a request.
type read struct {
	number int
	lines  []string
}

// subject is the object that the selected row is about.
type subject struct {
	kind            objects.Kind
	namespace, name string
}

func (s subject) String() string {
	if s.namespace != "" {
		return s.kind.Kind + " " + s.namespace + "/" + s.name
	}
	return s.kind.Kind + " " + s.name
}

const (
	// atEnd is below the last line of any sheet.
	atEnd = 1 << 30
	// longest is how long to wait for an answer from the cluster.
	longest = 10 * time.Second
	// logsEvery is how often the shown logs are read.
	logsEvery = 2 * time.Second
)

// describe shows everything about the selected row.
func (a *App) describe() tea.Cmd {
	key := a.state().window.Key
	if _, group := view.GroupOf(key); (key == "" || group) && a.screen != Savings {
		return nil
	}
	a.sheet, a.above, a.reading = detailSheet, 0, reading{number: a.reading.number}
	s, ok := a.subject()
	if !ok || a.o.Object == nil {
		return nil
	}
	return a.ask(s, func(ctx context.Context) []string {
		o, err := a.o.Object(ctx, s.kind, s.namespace, s.name)
		switch {
		case err != nil:
			return []string{"events  " + err.Error()}
		case o.NoEvents != "":
			return []string{"events  " + o.NoEvents}
		}
		return eventLines(o.Events, a.o.Now())
	})
}

// open shows the YAML or the logs of the selected row's object.
func (a *App) open(what sheet) tea.Cmd {
	s, ok := a.subject()
	if what == logSheet {
		s, ok = a.podOf(s, ok)
	}
	if !ok {
		a.said = map[sheet]string{
			yamlSheet: "select a row that has YAML", logSheet: "select a pod, or a node that is a pod's microVM",
		}[what]
		return nil
	}
	a.sheet, a.above, a.reading = what, 0, reading{number: a.reading.number, tail: what == logSheet}
	return a.ask(s, func(ctx context.Context) []string { return a.text(ctx, what, s) })
}

// text reads what a sheet shows about an object.
func (a *App) text(ctx context.Context, what sheet, of subject) []string {
	var text string
	var err error
	switch {
	case what == logSheet && a.o.Logs != nil:
		text, err = a.o.Logs(ctx, of.namespace, of.name)
	case what == yamlSheet && a.o.Object != nil:
		var o objects.Object
		o, err = a.o.Object(ctx, of.kind, of.namespace, of.name)
		text = o.YAML
	}
	switch {
	case err != nil:
		return []string{err.Error()}
	case text == "":
		return []string{"(nothing)"}
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// ask reads in the background.
func (a *App) ask(s subject, answer func(context.Context) []string) tea.Cmd {
	a.reading.number++
	a.reading.of, a.reading.busy, a.reading.since = s, true, a.o.Now()
	number := a.reading.number
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), longest)
		defer cancel()
		return read{number, answer(ctx)}
	}
}

// take handles an answer, unless it is outdated.
func (a *App) take(r read) {
	if r.number == a.reading.number {
		a.reading.busy, a.reading.lines = false, r.lines
	}
}

// readAgain refreshes the shown logs.
func (a *App) readAgain() tea.Cmd {
	r := &a.reading
	if a.sheet != logSheet || r.busy || a.o.Now().Sub(r.since) < logsEvery {
		return nil
	}
	s := r.of
	return a.ask(s, func(ctx context.Context) []string { return a.text(ctx, logSheet, s) })
}

// sheetText writes the YAML or the logs.
func (f *frame) sheetText() {
	lines := f.a.reading.lines
	if lines == nil {
		lines = []string{f.say("reading ...")}
	}
	if f.a.reading.tail {
		f.a.above = atEnd
	}
	title := map[sheet]string{yamlSheet: "YAML of ", logSheet: "logs of "}[f.a.sheet] + f.a.reading.of.String()
	f.cell(" "+title, f.a.width, false, bold)
	f.WriteByte('\n')
	f.page(lines)
}

// subject returns the object that the selected row is about.
func (a *App) subject() (subject, bool) {
	about, ok := a.aboutOf()
	if !ok {
		return subject{}, false
	}
	i := slices.IndexFunc(objects.Kinds, func(k objects.Kind) bool { return strings.EqualFold(k.Kind, about.Kind) })
	if i < 0 {
		return subject{}, false
	}
	s := subject{kind: objects.Kinds[i], name: about.Name}
	if s.kind.Namespaced {
		s.namespace, s.name, _ = strings.Cut(about.Name, "/")
	}
	return s, true
}

// podOf returns the pod that the selected row is about: the row's own, or the one whose microVM a node is.
func (a *App) podOf(s subject, ok bool) (subject, bool) {
	if !ok || s.kind.Kind == "Pod" {
		return s, ok
	}
	r, known := a.o.Model.Node(s.name)
	namespace, name, found := strings.Cut(r.MicroVM, "/")
	if s.kind.Kind != "Node" || !known || !found {
		return s, false
	}
	return subject{kind: objects.Kinds[0], namespace: namespace, name: name}, true
}

// eventLines formats events as kubectl describe does, newest first.
func eventLines(events []objects.Event, now time.Time) []string {
	if len(events) == 0 {
		return []string{"events  none"}
	}
	var out []string
	for i, e := range events {
		head := "        "
		if i == 0 {
			head = "events  "
		}
		times := ""
		if e.Count > 1 {
			times = fmt.Sprintf(" (%d times)", e.Count)
		}
		out = append(out, fmt.Sprintf("%s%s ago %s %s: %s%s", head, view.Age(now, time.Unix(e.Last, 0)), e.Type, e.Reason,
			e.Message, times))
	}
	return out
}
