package program

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// Names under which the program is something else: a kubectl plugin, and what kubectl calls to complete the plugin's
// words.
const (
	pluginName    = "kubectl-nodeless"
	completerName = "kubectl_complete-nodeless"
)

// CalledAs returns how people call the program whose file has this name, and its arguments.
func CalledAs(file string, args []string) (name string, what []string) {
	switch strings.TrimSuffix(filepath.Base(file), ".exe") {
	case pluginName:
		return "kubectl nodeless", args
	case completerName:
		return "kubectl nodeless", append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return "nodeless", args
}

// CallItself makes all texts use the name that people type, if that is not "nodeless".
func CallItself(name string, root *cobra.Command) {
	if name == root.Name() {
		return
	}
	root.CompletionOptions.DisableDefaultCmd = true // kubectl asks for a plugin's completions itself, see completerName
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	say := Rename(name, root)
	root.SetErr(spoken{root.ErrOrStderr(), name, say})
	for _, c := range append(Commands(root), root) {
		c.Short, c.Long, c.Example = say(c.Short), say(c.Long), say(c.Example)
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = say(f.Usage) })
	}
}

// Rename returns a function that replaces the program's name in a text wherever one of its commands follows.
func Rename(name string, root *cobra.Command) func(string) string {
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

// spoken is stderr for a program that people call by another name, which it puts into messages.
type spoken struct {
	io.Writer
	name string
	say  func(string) string
}

// Write writes one message.
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

// Printable returns an error as people may read it: what it quotes from a cluster or a file may be anything.
func Printable(name string, root *cobra.Command, err error) string {
	text := strings.ReplaceAll(err.Error(), "\t", "  ") // cobra indents its suggestions with tabs
	return printable.Lines(Rename(name, root)(strings.TrimSpace(text)))
}

// Commands returns all commands below a command, without the command itself.
func Commands(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		out = append(append(out, sub), Commands(sub)...)
	}
	return out
}

// Name returns how the user called this program.
func Name() string {
	name, _ := CalledAs(os.Args[0], nil)
	if self := os.Args[0]; name == "nodeless" && filepath.Base(self) != self {
		return self
	}
	return name
}
