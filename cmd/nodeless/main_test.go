//go:build !noplane

package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/explain/whatif"
)

func TestUpRefusesChoicesBeforeItBegins(t *testing.T) {
	for flag, value := range map[string]string{"--feature-gates": "NodeRepair", "--preference-policy": "Sometimes"} {
		root := newRoot()
		root.SetArgs([]string{"up", "--detach", "--data-dir", filepath.Join(t.TempDir(), "d"), flag, value})
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
}

// 2 says that something would change: a usage of plan that is wrong must not say so.
func TestAWrongUsageOfPlanIsNoChange(t *testing.T) {
	for _, c := range []struct {
		args, horizon string
		want          int
		detailed      string
	}{
		{"plan --no-such-flag", "", 1, "true"},
		{"plan stray", "", 1, "true"},
		{"plan --no-such-flag", "", program.ExitFailure, "false"},
		{"plan --detailed-exitcode --no-such-flag", "", 1, ""},
		{"plan --no-such-flag --detailed-exitcode", "", 1, ""},
		{"plan --detailed-exitcode=true --no-such-flag", "", 1, ""},
		{"plan --detailed-exitcode stray", "", 1, ""},
		{"plan --detailed-exitcode -f pool.yaml", "soon", 1, ""},
		{"plan --detailed-exitcode", "", 1, ""},
		{"plan --no-such-flag", "", program.ExitFailure, ""},
		{"plan stray", "", program.ExitFailure, ""},
		{"plan -f pool.yaml", "soon", program.ExitFailure, ""},
		{"why --detailed-exitcode", "", program.ExitFailure, ""},
	} {
		t.Setenv("NODELESS_HORIZON", c.horizon)
		t.Setenv("NODELESS_DETAILED_EXITCODE", c.detailed)
		if got := execute("nodeless", strings.Fields(c.args)); got != c.want {
			t.Errorf("NODELESS_HORIZON=%q %s: exit code %d, want %d", c.horizon, c.args, got, c.want)
		}
	}
}

// A mistyped subcommand is an error, also of commands that only group others.
func TestAnUnknownSubcommandFails(t *testing.T) {
	for _, group := range append(program.Commands(newRoot()), newRoot()) {
		if !group.HasSubCommands() || group.Name() == "simulate" { // which wants a file
			continue
		}
		path := strings.Fields(group.CommandPath())[1:]
		root := newRoot()
		root.SetArgs(append(path, "no-such-command"))
		root.SetOut(io.Discard)
		err := root.ExecuteContext(t.Context())
		if code, _ := program.ExitCode(err); code != program.ExitFailure ||
			!strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%s no-such-command: exit code %d, %v", group.CommandPath(), code, err)
		}
	}
}

// completed returns what Tab offers after words, and then what the shell does, as cobra.ShellCompDirective.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	root, out := newRoot(), &bytes.Buffer{}
	root.SetArgs(append([]string{"__complete"}, words...))
	root.SetOut(out)
	root.SetErr(io.Discard)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out.String())
}

// After -o Tab offers formats, or folders where a command writes to one.
func TestTabOffersWhatACommandCanWrite(t *testing.T) {
	formats := fmt.Sprintf(":%d", cobra.ShellCompDirectiveNoFileComp)
	for command, want := range map[string]string{
		"image build": fmt.Sprintf(":%d", cobra.ShellCompDirectiveFilterDirs),
		"iam":         "json cloudformation terraform " + formats,
		"doctor":      "json yaml " + formats,
	} {
		if got := strings.Join(completed(t, append(strings.Fields(command), "-o", "")...), " "); got != want {
			t.Errorf("%s -o: %q, want %q", command, got, want)
		}
	}
}

// Commands about whole clusters have no -n, which would have no effect.
func TestOnlyCommandsThatReadANamespaceTakeOne(t *testing.T) {
	for command, want := range map[string]bool{
		"capture": false, "savings": false, "roll nodepool": false,
		"why": true, "plan": true, "decisions": true, "web": true,
	} {
		c, _, err := newRoot().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Flags().Lookup("namespace") != nil; got != want {
			t.Errorf("%s takes --namespace: %t, want %t", command, got, want)
		}
	}
}

// What Tab offers after "plan --delete", plan accepts.
func TestPlanDeletesTheKindsThatTabOffers(t *testing.T) {
	offered := completed(t, "plan", "--delete", "")
	if !slices.Contains(offered, "node/") {
		t.Errorf("no node/ in %q", offered)
	}
	for _, kind := range offered {
		if !strings.HasSuffix(kind, "/") {
			continue
		}
		if _, _, err := (&whatif.Change{}).Named(kind + "a"); err != nil {
			t.Error(err)
		}
	}
}
