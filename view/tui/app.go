// Package tui shows a view.Model on a terminal, where people move around in it with keys, and as a table for programs.
package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/objects"
)

// Screen is one of the tables.
type Screen int

// The screens, in the order of their keys.
const (
	Nodes Screen = iota
	Pools
	Pending
	Decisions
	Savings
	pods // of one node
)

// Screens are the names of those that can be begun with, by Screen.
var Screens = []string{"nodes", "pools", "pending", "decisions", "savings"}

// Options are what an App shows, and how.
type Options struct {
	Model   *view.Model
	Context string // of the kubeconfig
	Screen  Screen
	Labels  []string // shown as columns of nodes
	Sort    view.Sort
	Group   string // a field or label that nodes are grouped by
	Style   Style
	// Prices says where prices come from; "" = none are shown.
	Prices string
	// Object reads single objects, and Logs the logs of a pod's containers; nil = they are not shown.
	Object objects.Read
	// Contexts are those of the kubeconfig that can be shown instead; nil = none.
	Contexts func() []string
	Logs     func(ctx context.Context, namespace, pod string) (string, error)
	Now      func() time.Time
}

// App is the terminal's program: a tea.Model.
type App struct {
	o             Options
	width, height int
	colours       bool
	screen        Screen
	node          string     // whose pods are shown
	about         view.About // whose decisions are shown
	from          Screen     // where they were asked for
	states        [pods + 1]state
	typing        bool   // a filter
	before        string // the filter before it was typed
	prompt        prompt
	said          string // what became of the last command
	next          string // the context to show after this one
	sheet         sheet
	reading       reading // what the sheet has of the cluster
	above         int     // lines of the sheet that are above the screen
	monthly       bool
	noMouse       bool
	rowsAt        int // the line of the screen with the first row
	tabsAt        int // the line with the tabs
	tabEnds       [pods]int
	scrolled      int // columns left out
}

// state is what a screen shows of its rows.
type state struct {
	window view.Window
	filter string
	sort   view.Sort
	group  string
}

// New is an App before its first frame.
func New(o Options) *App {
	a := &App{o: o, screen: o.Screen, width: 80, height: 24}
	a.states[Nodes].sort, a.states[Nodes].group = o.Sort, o.Group
	return a
}

// changed says that the model did; ticked that ages did.
type (
	changed struct{}
	ticked  struct{}
	rested  struct{}
)

// rest is between two frames that changes of the cluster make; keys are answered at once.
const rest = 100 * time.Millisecond

func (a *App) await() tea.Msg {
	<-a.o.Model.Changed()
	return changed{}
}

func second() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return ticked{} }) }

// Init begins to wait for changes.
func (a *App) Init() tea.Cmd { return tea.Batch(a.await, second()) }

// Update takes what happened.
func (a *App) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		a.width, a.height = m.Width, m.Height
	case tea.ColorProfileMsg:
		a.colours = m.Profile > colorprofile.ASCII
	case tea.KeyPressMsg:
		return a, a.press(m)
	case tea.MouseWheelMsg:
		a.wheel(m.Button)
	case tea.MouseClickMsg:
		return a, a.click(m.Mouse())
	case tea.PasteMsg:
		if a.typing || a.prompt.open {
			a.typed(m.Content)
		}
	case read:
		a.take(m)
	case changed:
		return a, tea.Tick(rest, func(time.Time) tea.Msg { return rested{} })
	case rested:
		return a, a.await
	case ticked:
		return a, tea.Batch(second(), a.readAgain())
	}
	return a, nil
}

// View is the frame.
func (a *App) View() tea.View {
	v := tea.NewView(a.Frame())
	v.AltScreen = true
	if !a.noMouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	v.WindowTitle = "nodeless top " + view.Escape(a.o.Context)
	return v
}

// Next is the context that is to be shown after the program has ended; "" = none.
func (a *App) Next() string { return a.next }

func (a *App) state() *state { return &a.states[a.screen] }

func (a *App) query(height int) view.Query {
	s := a.state()
	q := view.Query{Filter: s.filter, Sort: s.sort, Group: s.group, Window: s.window}
	q.Window.Height = height
	return q
}

// sorts are the orders that the key s goes through.
func (a *App) sorts() []string {
	resources := a.o.Model.Resources()
	switch a.screen {
	case Nodes:
		out := append([]string{view.SortAge, view.FieldNode}, resources...)
		out = append(out, view.SortPrice, view.SortPods, view.FieldPool, view.FieldType, view.FieldCapacity,
			view.FieldZone, view.SortReadyIn, view.FieldStatus)
		return append(out, a.o.Labels...)
	case Pending, pods:
		return append([]string{"", view.SortAge, "pod"}, resources...)
	case Decisions, Savings:
		return []string{"", view.SortSaves}
	case Pools:
	}
	return nil
}

// groups are those that the key g goes through.
func (a *App) groups() []string {
	return append([]string{"", view.FieldPool, view.FieldZone, view.FieldType, view.FieldCapacity, view.FieldStatus},
		a.o.Labels...)
}

// after is the one behind a text in a list, the first behind the last.
func after(list []string, text string) string {
	for i, s := range list {
		if s == text && i+1 < len(list) {
			return list[i+1]
		}
	}
	return list[0]
}
