// Package completion completes the names of objects, contexts and values of flags in a shell.
package completion

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/view"
)

// Completion never makes a shell wait for a cluster longer than completionTime, offers at most mostNames objects, and
// reports no errors: someone who presses Tab wants names or nothing.
const (
	completionTime = 2 * time.Second
	mostNames      = 2000
)

// completer returns what a word can be completed to, except for what the shell knows itself.
type completer = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective)

// completable are the kinds whose objects' names are completed, by their names in commands.
var completable = map[string]schema.GroupVersionResource{
	"pod":        {Version: "v1", Resource: "pods"},
	"node":       {Version: "v1", Resource: "nodes"},
	"namespace":  {Version: "v1", Resource: "namespaces"},
	"nodeclaim":  {Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"},
	"nodepool":   {Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
	"deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
	"daemonset":  {Group: "apps", Version: "v1", Resource: "daemonsets"},
}

// Add sets up the completion of arguments and flags for all commands.
func Add(root *cobra.Command) {
	objects := completeObjects("pod", "node", "nodeclaim", "nodepool")
	for _, c := range program.Commands(root) {
		if c.Name() == "why" || c.Name() == "decisions" {
			c.ValidArgsFunction = objects
		}
		if c.Name() == "nodepool" {
			c.ValidArgsFunction = completeNames("nodepool")
		}
		flags := map[string]completer{
			"namespace": completeNames("namespace"), "context": completeContexts, "scale": completeScale,
			"delete": completeObjects("nodepool", "node", "daemonset", "deployment"),
			"prices": oneOf("built-in", "aws"),
			"group":  oneOf(view.FieldPool, view.FieldZone, view.FieldType, view.FieldCapacity, view.FieldStatus),
			"node-sort": oneOf("creation", "cpu", "memory", view.SortPrice, view.SortPods, view.FieldNode, view.FieldPool,
				view.FieldType, view.FieldZone, view.FieldCapacity, view.FieldStatus, view.SortReadyIn),
			"resources": oneOf("cpu", "memory", "pods", "ephemeral-storage", "cpu,memory"), "as": oneOf(),
			"output": completeOutput,
		}
		for name, complete := range flags {
			if c.Flags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, complete) // fails only if it is registered twice
			}
		}
	}
}

func oneOf(words ...string) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOutput completes the formats that the help of -o lists, or the name of a folder if it lists none. No space
// follows "=", since a value must.
func completeOutput(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	usage, _, _ := strings.Cut(cmd.Flags().Lookup("output").Usage, ";") // what follows is about no -o
	listed := strings.FieldsFunc(usage, func(r rune) bool { return strings.ContainsRune(" ,:()…", r) })
	known := []string{
		"text", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns=", "go-template=", "cloudformation",
		"terraform",
	}
	known = slices.DeleteFunc(known, func(k string) bool { return !slices.Contains(listed, k) })
	if len(known) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	known = slices.DeleteFunc(known, func(k string) bool { return !strings.HasPrefix(k, word) })
	if len(known) == 1 && strings.HasSuffix(known[0], "=") {
		return known, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return known, cobra.ShellCompDirectiveNoFileComp
}

// completeObjects completes KIND/NAME, and NAME after a kind that is a word of its own.
func completeObjects(kinds ...string) completer {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		kind, _, slash := strings.Cut(word, "/")
		switch {
		case len(args) == 1 && slices.Contains(kinds, args[0]):
			return namesOf(cmd, args[0], "", word), cobra.ShellCompDirectiveNoFileComp
		case len(args) > 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case slash && slices.Contains(kinds, kind):
			return namesOf(cmd, kind, kind+"/", word), cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, k := range kinds {
			out = append(out, k+"/")
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func completeNames(kind string) completer {
	return func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return namesOf(cmd, kind, "", word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeScale completes deployment/NAME=, which a number must follow.
func completeScale(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names := namesOf(cmd, "deployment", "deployment/", word)
	for i := range names {
		names[i] += "="
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func completeContexts(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = flagText(cmd, "kubeconfig")
	raw, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

func flagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// namesOf returns the names of a kind's objects, with a prefix before each, that begin with the word; none if the
// cluster does not answer in time.
func namesOf(cmd *cobra.Command, kind, before, word string) []cobra.Completion {
	if flagText(cmd, "from") != "" {
		return nil // reading a file takes too long
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	klog.SetLogger(logr.Discard())
	done := make(chan []string, 1) // a credential plugin does not know ctx
	go func() {
		names, err := listNames(ctx, cmd, kind)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		done <- names
	}()
	var out []cobra.Completion
	select {
	case <-ctx.Done():
	case names := <-done:
		for _, name := range names {
			if strings.HasPrefix(before+name, word) {
				out = append(out, before+name)
			}
		}
	}
	return out
}

func listNames(ctx context.Context, cmd *cobra.Command, kind string) ([]string, error) {
	if err := program.ReadEnvironment(cmd); err != nil {
		return nil, err
	}
	flags := target.Flags{
		Kubeconfig: flagText(cmd, "kubeconfig"), Context: flagText(cmd, "context"), Namespace: flagText(cmd, "namespace"),
		As: flagText(cmd, "as"),
		Selector: localcluster.Selector{
			Name: flagText(cmd, "name"), DataDir: flagText(cmd, "data-dir"),
			Set: cmd.Flags(),
		}, Prices: "built-in",
	}
	t, err := flags.Find()
	if err != nil {
		return nil, err
	}
	cfg := rest.CopyConfig(t.REST)
	cfg.Timeout, cfg.WarningHandler = completionTime, rest.NoWarnings{}
	cl, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cfg.Host, err)
	}
	var from metadata.ResourceInterface = cl.Resource(completable[kind])
	if kind == "pod" || kind == "deployment" || kind == "daemonset" {
		from = cl.Resource(completable[kind]).Namespace(t.Namespace)
	}
	list, err := from.List(ctx, metav1.ListOptions{Limit: mostNames})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: list %s: %w", cfg.Host, kind, err)
	}
	var names []string
	for i := range list.Items {
		if name := list.Items[i].Name; view.Escape(name) == name {
			names = append(names, name)
		}
	}
	return names, nil
}
