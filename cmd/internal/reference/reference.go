// Package reference prints docs/cli.md from the commands themselves.
package reference

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

// New returns the command that prints docs/cli.md. It is for those who generate the documents, and hidden from
// others.
func New() *cobra.Command {
	return &cobra.Command{
		Use: "reference", Hidden: true, Args: cobra.NoArgs,
		Short: "Print the reference of all commands, docs/cli.md",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeReference(cmd.OutOrStdout(), cmd.Root())
		},
	}
}

// before is the text above the commands.
const before = `# Which commands and flags are there?

<!-- Made by "make generate-cli" of the commands themselves; change their texts, not this file. -->

"nodeless help COMMAND" says the same as this page. Every flag may also be given as an environment variable:
` + "`NODELESS_DATA_DIR` stands for `--data-dir`" + ` where the flag is not given. What is asked for goes to stdout, all
else to stderr. Exit codes: [below](#nodeless-exit-codes).

## Completion

Commands, flags and the names of your pods, nodes, claims, pools, namespaces and contexts are completed in bash, zsh,
fish and PowerShell. A cluster that does not answer within two seconds is not asked further. In bash, for this shell and
for those to come:

` + "```sh" + `
source <(nodeless completion bash)
nodeless completion bash > nodeless.bash
nodeless completion zsh > _nodeless
nodeless completion fish > nodeless.fish
` + "```" + `

## As a plugin of kubectl

Under the name ` + "`kubectl-nodeless` in a folder of `$PATH` the program is `kubectl nodeless`" + ` and
calls itself so. Under the name ` + "`kubectl_complete-nodeless`" + ` it completes its words for kubectl:

` + "```sh" + `
mkdir -p plugins
ln -s "$(command -v nodeless)" plugins/kubectl-nodeless
ln -s "$(command -v nodeless)" plugins/kubectl_complete-nodeless
plugins/kubectl-nodeless why --help
plugins/kubectl_complete-nodeless why ""
` + "```" + `

## Output

Where ` + "`-o`" + ` takes json and yaml it is the same data as the table, with more in it; fields are only ever added.
` + "`-o jsonpath='{.items[*].id}'`, `-o custom-columns=NAME:.name` and `-o go-template='{{.kind}}'`" + ` pick from it
as they do in kubectl; a row of custom-columns is an element of the list that was asked for.
` + "`NO_COLOR` and `CLICOLOR_FORCE`" + ` are heeded.

## Commands

`

func writeReference(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(before)
	b.WriteString("| command | does |\n|---|---|\n")
	all := documented(root)
	for _, c := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"),
			cell(c.Short))
	}
	for _, c := range all {
		writeCommand(&b, c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// documented returns the commands that people see.
func documented(root *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, c := range program.Commands(root) {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" && c.Parent().Name() != "completion" {
			out = append(out, c)
		}
	}
	return out
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", c.CommandPath(), c.Short)
	if c.Runnable() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Long != "" {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.Trim(c.Long, "\n"))
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.Trim(c.Example, "\n"))
	}
	rows := ""
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		rows += fmt.Sprintf("| %s | %s | %s | %s |\n", name, kind, standard(f.DefValue), cell(usage))
	})
	if rows != "" {
		fmt.Fprintf(b, "\n| flag | value | default | |\n|---|---|---|---|\n%s", rows)
	}
}

// standard formats a flag's default value; "" if it is a zero value.
func standard(value string) string {
	switch value {
	case "", "[]", "false", "0s":
		return ""
	}
	return "`" + cell(value) + "`"
}

// cell escapes text for a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(text)
}
