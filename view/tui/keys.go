package tui

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/nodeless/nodeless/view"
)

// press answers a key. The keys are eks-node-viewer's (arrows turn pages, q, esc and ctrl+c leave) and, beside them,
// k9s'.
func (a *App) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case a.typing:
		a.edit(key, k.Text)
		return nil
	case a.detail && a.read(key):
		return nil
	case a.help || a.detail:
		a.help, a.detail, a.above = false, false, 0
	case key == "esc":
		return a.back()
	case !a.move(key):
		a.command(key)
	}
	if key == "q" {
		return tea.Quit
	}
	return nil
}

// command answers the keys that change what is shown.
func (a *App) command(key string) {
	switch key {
	case "1", "2", "3", "4", "5":
		a.show(Screen(key[0] - '1'))
	case "tab":
		a.show((a.tab() + 1) % pods)
	case "shift+tab":
		a.show((a.tab() + pods - 1) % pods)
	case "d":
		a.drill()
	case "enter":
		a.enter()
	case "w":
		_, group := view.GroupOf(a.state().window.Key)
		a.detail = a.state().window.Key != "" && !group || a.screen == Savings
	case "?", "h":
		a.help = true
	case "/":
		a.typing, a.before = true, a.state().filter
	default:
		a.arrange(key)
	}
}

// move answers the keys that choose a row; false for another key.
func (a *App) move(key string) bool {
	w := &a.state().window
	page := max(1, a.rows())
	var step int
	switch key {
	case "up", "k":
		step = -1
	case "down", "j":
		step = 1
	case "left", "pgup", "ctrl+b":
		step = -page
	case "right", "pgdown", "ctrl+f":
		step = page
	case "home":
		step = -w.Index
	case "end", "G":
		step = 1 << 30
	default:
		return false
	}
	w.Key, w.Index = "", max(0, w.Index+step)
	return true
}

// arrange answers the keys that order rows and columns.
func (a *App) arrange(key string) {
	s := a.state()
	switch key {
	case "s":
		if sorts := a.sorts(); sorts != nil {
			s.sort = view.Sort{Key: after(sorts, s.sort.Key), Desc: false}
			switch s.sort.Key {
			case view.SortAge, view.FieldNode, view.FieldPool, view.FieldType, view.FieldZone, view.FieldCapacity,
				view.FieldStatus, "pod", "":
			default:
				s.sort.Desc = true // of amounts the largest matter
			}
		}
	case "S", "r":
		s.sort.Desc = !s.sort.Desc
	case "g":
		if a.screen == Nodes {
			s.group = after(a.groups(), s.group)
		}
	case "$":
		a.monthly = !a.monthly
	case "<", ",":
		a.scrolled = max(0, a.scrolled-1)
	case ">", ".":
		a.scrolled = min(a.scrolled+1, 12)
	}
}

// edit answers a key while a filter is typed.
func (a *App) edit(key, text string) {
	s := a.state()
	switch key {
	case "enter":
		a.typing = false
	case "esc":
		a.typing, s.filter = false, a.before
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(s.filter)
		s.filter = s.filter[:len(s.filter)-n]
	case "ctrl+u":
		s.filter = ""
	default:
		a.typed(text)
	}
}

// mostFilter is longer than any filter that makes sense.
const mostFilter = 200

func (a *App) typed(text string) {
	if s := a.state(); len(s.filter)+len(text) <= mostFilter {
		s.filter += strings.Join(strings.FieldsFunc(text, func(r rune) bool { return !view.Printable(r) }), " ")
	}
}

// show begins a screen; decisions are everybody's then.
func (a *App) show(s Screen) {
	a.screen, a.scrolled = s, 0
	if a.about != (view.About{}) {
		a.about, a.states[Decisions] = view.About{}, state{}
	}
}

// tab is the screen whose tab is lit.
func (a *App) tab() Screen {
	if a.screen == pods {
		return Nodes
	}
	return a.screen
}

// read answers the keys that move in a detail; false for another key.
func (a *App) read(key string) bool {
	switch key {
	case "up", "k":
		a.above--
	case "down", "j":
		a.above++
	case "left", "pgup", "ctrl+b":
		a.above -= a.rows()
	case "right", "pgdown", "ctrl+f":
		a.above += a.rows()
	case "home":
		a.above = 0
	case "end", "G":
		a.above = 1 << 30
	default:
		return false
	}
	a.above = max(0, a.above)
	return true
}

// enter goes into the chosen row: the pods of a node, the nodes of a pool or group, all of what is said of a pod.
func (a *App) enter() {
	key := a.state().window.Key
	if key == "" {
		return
	}
	nodes := &a.states[Nodes]
	switch a.screen {
	case Nodes:
		if group, ok := view.GroupOf(key); ok {
			nodes.filter, nodes.group = strings.TrimSpace(nodes.filter+" "+nodes.group+"="+group), ""
			nodes.window = view.Window{}
			return
		}
		a.node, a.states[pods] = key, state{}
		a.show(pods)
	case Pools:
		if key == view.NoPool {
			key = ""
		}
		nodes.filter, nodes.window = view.FieldPool+"="+key, view.Window{}
		a.show(Nodes)
	case Pending, pods, Decisions, Savings:
		a.detail = true
	}
}

// back leaves what was entered last; at the top it leaves the program, as eks-node-viewer does.
func (a *App) back() tea.Cmd {
	s := a.state()
	switch {
	case a.screen == Decisions && a.about != (view.About{}):
		a.show(a.from)
	case a.screen == pods:
		a.show(Nodes)
	case s.filter != "":
		s.filter = ""
	case s.group != "" && s.group != a.o.Group:
		s.group = a.o.Group
	case a.screen != a.o.Screen:
		a.show(a.o.Screen)
	default:
		return tea.Quit
	}
	return nil
}
