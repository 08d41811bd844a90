package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/view"
)

// press handles a key. The keys are eks-node-viewer's (arrows turn pages; q, esc and ctrl+c quit) and, in addition,
// k9s'.
func (a *App) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	a.said = ""
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case a.typing:
		a.edit(key, k.Text)
		return nil
	case a.prompt.open:
		if line := a.prompt.edit(key, k.Text); line != "" {
			return a.run(line)
		}
		return nil
	case a.sheet > keysSheet && a.scroll(key):
		return nil
	case a.sheet != noSheet && key != "q":
		a.sheet = noSheet
		return nil
	case key == "esc":
		return a.back()
	case key == "q":
		return tea.Quit
	case a.move(key):
		return nil
	}
	return a.command(key)
}

// command handles the keys that change what is shown.
func (a *App) command(key string) tea.Cmd {
	switch key {
	case "1", "2", "3", "4", "5", "6":
		a.show(Screen(key[0] - '1'))
	case "tab":
		a.show((a.tab() + 1) % pods)
	case "shift+tab":
		a.show((a.tab() + pods - 1) % pods)
	case "D":
		a.drill()
	case "enter":
		return a.enter()
	case "d", "w":
		return a.describe()
	case "y":
		return a.open(yamlSheet)
	case "l":
		return a.open(logSheet)
	case "?", "h":
		a.sheet = keysSheet
	case "/":
		a.typing, a.before = true, a.state().filter
	case ":":
		a.prompt = prompt{open: true, contexts: a.o.Contexts}
	case "m":
		a.noMouse = !a.noMouse
	default:
		a.arrange(key)
	}
	return nil
}

// move handles the keys that select a row; false for another key.
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

// arrange handles the keys that arrange rows and columns.
func (a *App) arrange(key string) {
	s := a.state()
	switch key {
	case "s":
		if sorts := a.sorts(); sorts != nil {
			s.sort = view.Sort{Key: after(sorts, s.sort.Key), Desc: false}
			switch s.sort.Key {
			case view.SortAge, view.FieldNode, view.FieldPool, view.FieldType, view.FieldZone, view.FieldCapacity,
				view.FieldStatus, view.SortName, "pod", "":
			default:
				s.sort.Desc = true // for amounts, the largest matter
			}
		}
	case "S", "r":
		s.sort.Desc = !s.sort.Desc
	case "g":
		s.group = after(a.groups(), s.group)
	case "$":
		a.monthly = !a.monthly
	case "<", ",":
		a.scrolled = max(0, a.scrolled-1)
	case ">", ".":
		a.scrolled = min(a.scrolled+1, 12)
	}
}

// edit handles a key while a filter is being typed.
func (a *App) edit(key, text string) {
	s := a.state()
	switch key {
	case "enter":
		a.typing = false
	case "esc":
		a.typing, s.filter = false, a.before
	case "backspace":
		s.filter = shortened(s.filter)
	case "ctrl+u":
		s.filter = ""
	default:
		a.typed(text)
	}
}

// mostFilter is the maximum length in bytes of a filter or a command.
const mostFilter = 200

func (a *App) typed(text string) {
	if a.prompt.open {
		a.prompt.line = typed(a.prompt.line, text)
		return
	}
	a.state().filter = typed(a.state().filter, text)
}

// typed returns a line with the printable part of a text appended, unless that makes it too long.
func typed(line, text string) string {
	if len(line)+len(text) > mostFilter {
		return line
	}
	var clean strings.Builder
	for i, r := range text {
		if !view.PrintableAt(text, i) {
			r = '\n'
		}
		clean.WriteRune(r)
	}
	return line + strings.Join(strings.FieldsFunc(clean.String(), func(r rune) bool { return r == '\n' }), " ")
}

// shortened returns a line without its last character, which may consist of several runes.
func shortened(line string) string {
	last := 0
	for rest := line; rest != ""; {
		first, _ := ansi.FirstGraphemeCluster(rest, ansi.GraphemeWidth)
		last, rest = len(first), rest[len(first):]
	}
	return line[:len(line)-last]
}

// show switches to a screen. Decisions are then shown about all objects.
func (a *App) show(s Screen) {
	a.screen, a.scrolled = s, 0
	if a.about != (view.About{}) {
		a.about, a.states[Decisions] = view.About{}, state{}
	}
}

// tab returns the screen whose tab is highlighted.
func (a *App) tab() Screen {
	if a.screen == pods {
		return Nodes
	}
	return a.screen
}

// scroll handles the keys that scroll a sheet; false for another key.
func (a *App) scroll(key string) bool {
	a.reading.tail = false
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
		a.above, a.reading.tail = atEnd, a.sheet == logSheet
	default:
		return false
	}
	a.above = max(0, a.above)
	return true
}

// enter opens the selected row: the pods of a node, the nodes of a pool or group, or the details of anything else.
func (a *App) enter() tea.Cmd {
	key := a.state().window.Key
	if key == "" {
		return nil
	}
	nodes := &a.states[Nodes]
	switch a.screen {
	case Nodes:
		if group, ok := view.GroupOf(key); ok {
			nodes.filter, nodes.group = strings.TrimSpace(nodes.filter+" "+nodes.group+"="+group), ""
			nodes.window = view.Window{}
			return nil
		}
		a.node, a.states[pods] = key, state{}
		a.show(pods)
	case Pools:
		if key == view.NoPool {
			key = ""
		}
		nodes.filter, nodes.window = view.FieldPool+"="+key, view.Window{}
		a.show(Nodes)
	case Pending, pods, Decisions, Savings, Costs:
		return a.describe()
	}
	return nil
}

// back leaves what was entered last; at the top it quits, as eks-node-viewer does.
func (a *App) back() tea.Cmd {
	s, group := a.state(), a.o.Group
	if (a.screen == Costs) != (a.o.Screen == Costs) {
		group = "" // the flag is for the other screens
	}
	switch {
	case a.screen == Decisions && a.about != (view.About{}):
		a.show(a.from)
	case a.screen == pods:
		a.show(Nodes)
	case s.filter != "":
		s.filter = ""
	case s.group != "" && s.group != group:
		s.group = group
	case a.screen != a.o.Screen:
		a.show(a.o.Screen)
	default:
		return tea.Quit
	}
	return nil
}
