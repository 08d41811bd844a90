package tui

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/nodeless/nodeless/internal/view"
)

// press answers a key. The keys are eks-node-viewer's (arrows turn pages, q, esc and ctrl+c leave) and, beside them, k9s'.
func (a *App) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case a.typing:
		a.edit(key, k.Text)
		return nil
	case a.help || a.detail:
		if a.help, a.detail = false, false; key == "q" {
			return tea.Quit
		}
		return nil
	case a.move(key):
		return nil
	}
	switch key {
	case "q":
		return tea.Quit
	case "esc":
		return a.back()
	case "1", "2", "3":
		a.show(Screen(key[0] - '1'))
	case "tab":
		a.show((min(a.screen, Pending) + 1) % 3)
	case "shift+tab":
		a.show((min(a.screen, Pending) + 2) % 3)
	case "enter":
		a.enter()
	case "w":
		_, group := view.GroupOf(a.state().window.Key)
		a.detail = a.state().window.Key != "" && !group
	case "?", "h":
		a.help = true
	case "/":
		a.typing, a.before = true, a.state().filter
	default:
		a.arrange(key)
	}
	return nil
}

// move answers the keys that choose a row; false for another key.
func (a *App) move(key string) bool {
	w := &a.state().window
	page := max(1, a.rows())
	step := 0
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
			case view.SortAge, view.FieldNode, view.FieldPool, view.FieldType, view.FieldZone, view.FieldCapacity, view.FieldStatus, "pod", "":
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

func (a *App) show(s Screen) { a.screen, a.scrolled = s, 0 }

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
	case Pending, pods:
		a.detail = true
	}
}

// back leaves what was entered last; at the top it leaves the program, as eks-node-viewer does.
func (a *App) back() tea.Cmd {
	s := a.state()
	switch {
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
