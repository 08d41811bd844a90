// Package tui shows a view.Model on a terminal, where people navigate it with keys, and as a table for programs.
package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/language"
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
	Costs
	pods // of one node
)

// Screens are the names of the screens that can be shown first, by Screen.
var Screens = []string{"nodes", "pools", "pending", "decisions", "savings", "costs"}

// Options are what an App shows, and how.
type Options struct {
	Model   *view.Model
	Context string // of the kubeconfig
	Screen  Screen
	Labels  []string // shown as columns of nodes
	Sort    view.Sort
	Group   string // a field or label by which nodes are grouped; view.GroupWorkload for costs
	Style   Style
	// Prices says where prices come from; "" = none are shown.
	Prices string
	// Object reads single objects, and Logs the logs of a pod's containers; nil = they are not shown.
	Object objects.Read
	// Contexts returns the contexts of the kubeconfig that can be shown instead; nil = none.
	Contexts func() []string
	Logs     func(ctx context.Context, namespace, pod string) (string, error)
	Language *language.Language // of sentences and keys; nil = English
	Now      func() time.Time
	Done     <-chan struct{} // closed when the App is not shown any more; nil = never
}

// App is the terminal program: a tea.Model.
type App struct {
	o             Options
	width, height int
	colours       bool
	screen        Screen
	node          string     // whose pods are shown
	about         view.About // whose decisions are shown
	from          Screen     // the screen they were opened from
	states        [pods + 1]state
	typing        bool   // a filter is being typed
	before        string // the filter before typing
	prompt        prompt
	said          string // the result of the last command
	next          string // the context to show next
	sheet         sheet
	reading       reading // what the sheet reads from the cluster
	above         int     // number of the sheet's lines above the screen
	monthly       bool
	noMouse       bool
	rowsAt        int // the screen line of the first row
	tabsAt        int // the screen line of the tabs
	tabEnds       [pods]int
	scrolled      int // number of columns scrolled out
}

// state is which rows a screen shows.
type state struct {
	window view.Window
	filter string
	sort   view.Sort
	group  string
}

// New returns an App before its first frame.
func New(o Options) *App {
	a := &App{o: o, screen: o.Screen, width: 80, height: 24}
	a.states[Nodes].sort, a.states[Nodes].group = o.Sort, o.Group
	if o.Screen == Costs {
		a.states[Nodes].group, a.states[Costs].group = "", o.Group
	}
	return a
}

// changed says that the model has changed, ticked that ages have, rested that the next frame may follow.
type (
	changed struct{}
	ticked  struct{}
	rested  struct{}
)

// rest is the time between two frames for changes of the cluster; keys are answered at once.
const rest = 100 * time.Millisecond

func (a *App) await() tea.Msg {
	select {
	case <-a.o.Model.Changed():
		return changed{}
	case <-a.o.Done:
		return nil
	}
}

func second() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return ticked{} }) }

// Init starts to wait for changes.
func (a *App) Init() tea.Cmd {
	view.SetTime(a.o.Model, a.o.Now())
	return tea.Batch(a.await, second())
}

// Update handles a message.
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
		view.SetTime(a.o.Model, a.o.Now())
		return a, tea.Batch(second(), a.readAgain())
	}
	return a, nil
}

// View returns the frame.
func (a *App) View() tea.View {
	v := tea.NewView(a.Frame())
	v.AltScreen = true
	if !a.noMouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	v.WindowTitle = "nodeless top " + view.Escape(a.o.Context)
	return v
}

// Next returns the context to show after the program has ended; "" = none.
func (a *App) Next() string { return a.next }

func (a *App) state() *state { return &a.states[a.screen] }

func (a *App) query(height int) view.Query {
	s := a.state()
	q := view.Query{Filter: s.filter, Sort: s.sort, Group: s.group, Window: s.window}
	q.Window.Height = height
	return q
}

// sorts returns the orders that the key s cycles through.
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
	case Costs:
		return append([]string{"", view.SortName, view.SortPrice, view.SortPods}, resources...)
	case Pools:
	}
	return nil
}

// groups returns the groupings that the key g cycles through.
func (a *App) groups() []string {
	switch a.screen {
	case Nodes:
	case Costs:
		return []string{"", view.GroupWorkload}
	default:
		return []string{a.state().group}
	}
	return append([]string{"", view.FieldPool, view.FieldZone, view.FieldType, view.FieldCapacity, view.FieldStatus},
		a.o.Labels...)
}

// after returns the text that follows another in a list; the first follows the last.
func after(list []string, text string) string {
	for i, s := range list {
		if s == text && i+1 < len(list) {
			return list[i+1]
		}
	}
	return list[0]
}
