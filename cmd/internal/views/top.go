// Package views implements the live views of a cluster: top on a terminal, web in a browser.
package views

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/language"
	"github.com/nodeless/nodeless/view/objects"
	"github.com/nodeless/nodeless/view/tui"
	"github.com/nodeless/nodeless/view/watcher"
)

// topFlags are eks-node-viewer's flags, under its names, and some of our own.
type topFlags struct {
	localcluster.Selector
	kubeconfig, context                                string
	selector, labels, sort, group, style, resources    string
	disablePricing, attribution, showVersion, noHeader bool
	output                                             string
	timeout                                            time.Duration
}

func newTop() *cobra.Command {
	var f topFlags
	c := &cobra.Command{
		Use:   "top [nodes|pools|pending|decisions|savings|costs]",
		Short: "Show nodes with prices and usage, NodePools, pending pods and decisions, live",
		Long: `Shows the nodes of any cluster that you may read: what their pods request, what
they cost, and why they are kept or removed; NodePools with limits and budgets;
pending pods with the reason; recent decisions and what they saved; what each
namespace or workload costs. It only reads and needs nothing installed in the
cluster. Where karpenter.sh/v1 is installed it also shows NodePools, and
NodeClaims before their nodes exist.

On a terminal it is live ("?" lists the keys). Elsewhere, or with -o, it prints
once. The flags, keys and configuration file (~/.eks-node-viewer) of
eks-node-viewer work here, too. On a terminal it is in Korean where LC_ALL,
LC_MESSAGES or LANG says so (ko_KR.UTF-8).`,
		Example: `  # Watch the current cluster, or another one with an extra column
  nodeless top
  nodeless top --context prod --extra-labels karpenter.sh/nodepool

  # Print the pending pods, or the nodes as JSON
  nodeless top pending -o wide
  nodeless top -o json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: tui.Screens,
		PreRunE:   func(cmd *cobra.Command, _ []string) error { return fromViewersFile(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(c)
	return c
}

func (f *topFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", target.KubeconfigUsage)
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig")
	f.Selector.Add(fs)
	fs.StringVar(&f.selector, "node-selector", "", "show only nodes with these labels")
	fs.StringVar(&f.labels, "extra-labels", "",
		"labels of nodes to show as columns, separated by commas; eks-node-viewer/node-age and "+
			"eks-node-viewer/node-cpu-usage are computed")
	fs.StringVar(&f.sort, "node-sort", "creation=asc",
		"order of nodes: creation (asc = youngest first), cpu, memory, price, pods, node, pool, type, zone, "+
			"capacity, status, ready-in or a label, with =asc or =dsc")
	fs.StringVar(&f.group, "group", "", "group nodes by pool, zone, type, capacity, status or a label; costs by workload")
	fs.StringVar(&f.style, "style", tui.DefaultStyle, "colours for good, medium and poor usage")
	fs.StringVar(&f.resources, "resources", "cpu,memory",
		fmt.Sprintf("resources to count, at most %d, separated by commas; pods is one too", view.MaxResources))
	fs.BoolVar(&f.disablePricing, "disable-pricing", false, "show no prices")
	fs.StringVarP(&f.output, "output", "o", "",
		"print once: wide, name, json, yaml, "+output.Forms+"; by default a table where there is no terminal")
	fs.BoolVar(&f.noHeader, "no-headers", false, "print no titles and no totals")
	fs.DurationVar(&f.timeout, "request-timeout", time.Minute,
		"how long to wait for the cluster when printing once")
	fs.BoolVar(&f.attribution, "attribution", false, "name the libraries that are built in")
	fs.BoolVarP(&f.showVersion, "version", "v", false, "print the version")
}

func (f *topFlags) run(ctx context.Context, args []string, out, errs io.Writer) error {
	switch {
	case f.showVersion:
		_, err := fmt.Fprintf(out, "nodeless %s\n", program.Version)
		return err
	case f.attribution:
		_, err := fmt.Fprintln(out,
			"Nodeless is under the Apache License, Version 2.0. The libraries it is built of, and why: docs/dependencies.md "+
				"of its source;\ntheir versions: go version -m $(command -v nodeless)")
		return err
	}
	o, err := f.options(args)
	if err != nil {
		return err
	}
	klog.SetLogger(logr.Discard()) // client-go would write over the screen; what matters is in the model's notes
	if f.output != "" || !term.IsTerminal(int(os.Stdout.Fd())) {
		return f.once(ctx, o, out, errs)
	}
	for {
		next, err := f.live(ctx, o)
		if err != nil || next == "" {
			return err
		}
		f.context = next
		if o, err = f.options(args); err != nil {
			return err
		}
	}
}

// watch starts to fill the model of o.
func (f *topFlags) watch(ctx context.Context, o *tui.Options, decisions bool) (*watcher.Feed, *rest.Config, error) {
	cfg, name, err := f.find()
	if err != nil {
		return nil, nil, err
	}
	o.Context, o.Now = name, target.ServerClock(cfg).Now
	fd, err := watcher.Start(ctx, watcher.Options{
		REST: cfg, Context: name, Selector: f.selector, Unpriced: f.disablePricing, Decisions: decisions, Model: o.Model,
	})
	return fd, cfg, err
}

// live shows a cluster until someone leaves it, for the returned context if that is not "".
func (f *topFlags) live(ctx context.Context, o tui.Options) (next string, err error) {
	fd, cfg, err := f.watch(ctx, &o, true)
	if err != nil {
		return "", err
	}
	defer fd.Stop()
	if o.Object, err = objects.Reader(cfg); err != nil {
		return "", err
	}
	if o.Logs, err = objects.Logs(cfg); err != nil {
		return "", err
	}
	o.Contexts = func() []string { return target.Contexts(f.kubeconfig) }
	return show(ctx, o)
}

// once prints the cluster once.
func (f *topFlags) once(ctx context.Context, o tui.Options, out, errs io.Writer) error {
	fd, _, err := f.watch(ctx, &o, o.Screen == tui.Decisions || o.Screen == tui.Savings)
	if err != nil {
		return err
	}
	defer fd.Stop()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := fd.Wait(ctx); err != nil {
		return err
	}
	for _, note := range o.Model.Totals().Notes {
		fmt.Fprintln(errs, "nodeless: top:", note)
	}
	if n, none := o.Model.Decided(); n == 0 && none != "" {
		fmt.Fprintln(errs, "nodeless: top:", view.Escape(none))
	}
	if output.IsData(f.output) {
		return output.Rows(out, f.output, tui.Document(o),
			[]string{"nodes", "nodePools", "pendingPods", "items", "savings", "items"}[o.Screen], !f.noHeader)
	}
	return tui.Print(out, o, f.output, !f.noHeader)
}

// options parses the flags. Errors name the flag.
func (f *topFlags) options(args []string) (tui.Options, error) {
	o := tui.Options{Labels: list(f.labels), Sort: view.ParseSort(f.sort), Group: f.group}
	if len(args) == 1 {
		o.Screen = tui.Screen(slices.Index(tui.Screens, args[0]))
	}
	if o.Screen == tui.Costs {
		switch o.Group {
		case "", view.GroupWorkload:
		case view.GroupNamespace:
			o.Group = ""
		default:
			return o, fmt.Errorf("--group %s: costs are grouped by namespace or workload", o.Group)
		}
	}
	err := output.Check(f.output, "", "wide", "name")
	if err != nil {
		return o, err
	}
	if o.Style, err = tui.ParseStyle(f.style); err != nil {
		return o, fmt.Errorf("--style: %w", err)
	}
	if o.Model, err = view.New(list(f.resources)); err != nil {
		return o, fmt.Errorf("--resources: %w", err)
	}
	if !f.disablePricing {
		o.Prices = view.PriceSource()
	}
	return o, nil
}

// list returns the non-empty parts of a text.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// show runs the terminal program until someone leaves it, for the returned context if that is not "".
func show(ctx context.Context, o tui.Options) (next string, err error) {
	o.Language = language.ForLocale(os.Getenv)
	shown, end := context.WithCancel(ctx)
	defer end()
	o.Done = shown.Done()
	app := tui.New(o)
	_, err = tea.NewProgram(app, tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return "", ctx.Err() // a signal; the terminal has been restored
	}
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return "", fmt.Errorf("show the cluster on this terminal: %w; print it with: nodeless top -o wide", err)
	}
	return app.Next(), nil
}

// Commands returns the live views of a cluster.
func Commands() []*cobra.Command {
	return []*cobra.Command{newTop(), newWeb()}
}
