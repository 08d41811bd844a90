package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// colonCommands are the words that can be typed after a colon, as in k9s. Completion offers the first word of each
// line.
var colonCommands = []struct {
	words []string
	do    func(a *App) tea.Cmd
}{
	{[]string{"nodes", "node", "no"}, showing(Nodes)},
	{[]string{"pools", "pool", "nodepools", "nodepool", "np"}, showing(Pools)},
	{[]string{"pending", "pods", "pod", "po"}, showing(Pending)},
	{[]string{"decisions", "decision"}, showing(Decisions)},
	{[]string{"savings", "saving"}, showing(Savings)},
	{[]string{"costs", "cost"}, showing(Costs)},
	{[]string{"help", "h", "?"}, func(a *App) tea.Cmd {
		a.sheet = keysSheet
		return nil
	}},
	{[]string{"quit", "q", "q!", "exit"}, func(*App) tea.Cmd { return tea.Quit }},
}

func showing(s Screen) func(*App) tea.Cmd {
	return func(a *App) tea.Cmd {
		a.show(s)
		return nil
	}
}

// prompt is the line in which a command is typed.
type prompt struct {
	open     bool
	line     string
	contexts func() []string // of the kubeconfig; nil = none
}

// edit handles a key. It returns the command once that is complete.
func (p *prompt) edit(key, text string) (command string) {
	switch key {
	case "enter":
		p.open = false
		return strings.TrimSpace(p.line)
	case "esc":
		p.open = false
	case "tab", "right":
		p.line += p.completion()
	case "backspace":
		p.open = p.line != ""
		p.line = shortened(p.line)
	case "ctrl+u":
		p.line = ""
	default:
		p.line = typed(p.line, text)
	}
	return ""
}

// completion returns what the typed command lacks.
func (p *prompt) completion() string {
	words, begun := []string{}, strings.ToLower(p.line)
	for _, c := range colonCommands {
		words = append(words, c.words[0])
	}
	if word, context, ok := strings.Cut(p.line, " "); ok && contextWord(word) {
		words, begun = p.names(), context
	}
	for _, w := range words {
		if rest, ok := strings.CutPrefix(w, begun); ok && begun != "" {
			return rest
		}
	}
	return ""
}

func (p *prompt) names() []string {
	if p.contexts == nil {
		return nil
	}
	return p.contexts()
}

// run runs a command; a prefix stands for the first command that begins with it.
func (a *App) run(line string) tea.Cmd {
	word, context, _ := strings.Cut(line, " ")
	if contextWord(word) {
		return a.change(strings.TrimSpace(context))
	}
	line = strings.ToLower(line)
	for _, c := range colonCommands {
		for _, word := range c.words {
			if word == line {
				return c.do(a)
			}
		}
	}
	var known []string
	for _, c := range colonCommands {
		if strings.HasPrefix(c.words[0], line) {
			return c.do(a)
		}
		known = append(known, c.words[0])
	}
	a.said = "there is no command :" + line + "; commands: " + strings.Join(append(known, "ctx"), ", ")
	return nil
}

func contextWord(word string) bool { return word == "ctx" || word == "context" || word == "contexts" }

// change switches to another context of the kubeconfig.
func (a *App) change(to string) tea.Cmd {
	all := a.prompt.names()
	if slices.Contains(all, to) {
		a.next = to
		return tea.Quit
	}
	a.said = "contexts of the kubeconfig: " + strings.Join(all, ", ")
	switch {
	case len(all) == 0:
		a.said = "there is no kubeconfig with other contexts"
	case to != "":
		a.said = "there is no context " + to + "; " + a.said
	}
	return nil
}
