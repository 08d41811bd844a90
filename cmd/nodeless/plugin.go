package main

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Names under which the program is something else: a plugin of kubectl, and what kubectl asks to complete the
// plugin's words.
const (
	pluginName    = "kubectl-nodeless"
	completerName = "kubectl_complete-nodeless"
)

// calledAs is how people call the program whose file has this name, and what it was asked for.
func calledAs(file string, args []string) (name string, what []string) {
	switch strings.TrimSuffix(filepath.Base(file), ".exe") {
	case pluginName:
		return "kubectl nodeless", args
	case completerName:
		return "kubectl nodeless", append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return "nodeless", args
}

// speakAs has all texts say what people type, where that is not "nodeless".
func speakAs(name string, root *cobra.Command) {
	if name == root.Name() {
		return
	}
	root.CompletionOptions.DisableDefaultCmd = true // kubectl asks for a plugin's words itself, see completerName
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	say := inWords(name, root)
	root.SetErr(spoken{root.ErrOrStderr(), name, say})
	for _, c := range append(allCommands(root), root) {
		c.Short, c.Long, c.Example = say(c.Short), say(c.Long), say(c.Example)
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = say(f.Usage) })
	}
}

// inWords replaces what stands for the program in a text, where one of its commands follows.
func inWords(name string, root *cobra.Command) func(string) string {
	words := []string{"completion", "help", "version"}
	for _, c := range root.Commands() {
		words = append(words, regexp.QuoteMeta(c.Name()))
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	calls := regexp.MustCompile(`(^|[^\w/-])nodeless (` + strings.Join(words, "|") + `)\b`)
	return func(text string) string {
		text = calls.ReplaceAllString(text, "${1}"+name+" $2")
		return strings.ReplaceAll(text, "kubectl kubectl nodeless", "kubectl nodeless")
	}
}

// spoken is stderr for a program that people call by another name: what it says of itself is what they type.
type spoken struct {
	io.Writer
	name string
	say  func(string) string
}

// Write says the words of one message.
func (s spoken) Write(p []byte) (int, error) {
	text := s.say(string(p))
	if rest, own := strings.CutPrefix(text, "nodeless: "); own {
		text = s.name + ": " + rest
	}
	if _, err := io.WriteString(s.Writer, text); err != nil {
		return 0, err
	}
	return len(p), nil
}
