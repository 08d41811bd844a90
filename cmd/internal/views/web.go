package views

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/cmd/internal/webpage"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/watcher"
	"github.com/nodeless/nodeless/view/web"
)

// defaultPage is the default address of the page; kube-ops-view's is the same.
const defaultPage = "127.0.0.1:8080"

type webOptions struct {
	cluster   target.Flags
	policy    policyflags.Flags
	listen    string
	selector  string
	resources string
	gate      webpage.GateFlags
}

func newWeb() *cobra.Command {
	var o webOptions
	c := &cobra.Command{
		Use:   "web",
		Short: "Serve a live page of the cluster for your browser",
		Long: `Serves a page for any cluster that you may read: a box for each node with its
pods, its price and its state; the pending pods against the NodePools, with the
reason; and a timeline to go back on. It only reads and needs nothing installed
in the cluster. /lite shows the same as tables, without script.

It shows the other contexts of the kubeconfig, too: choose one beside the name,
or add them all up on the screen Fleet. A cluster is read from when you first
look at it.

On a loopback address the page asks for the token in the link that is printed,
and shows what your kubeconfig may read. On any other address it is served by
TLS and asks for a bearer token of the cluster: it shows what the token's owner
may list. Your kubeconfig then needs the ClusterRole system:auth-delegator.

From another machine: ssh -L 8080:127.0.0.1:8080 HOST. The URL parameters of
kube-ops-view work: http://127.0.0.1:8080/#scale=1.5;q=namespace=shop`,
		Example: `  # On this machine
  nodeless web
  nodeless web --context prod --listen 127.0.0.1:9000

  # For others, who log in with a token of the cluster
  nodeless web --listen 0.0.0.0:8443 --tls-cert page.crt --tls-key page.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.serve(cmd.Context(), cmd.OutOrStdout(), cmd.Flags().Changed("listen"))
		},
	}
	f := c.Flags()
	o.cluster.Add(f)
	o.cluster.AddNamespace(f)
	o.policy.Add(f)
	f.StringVar(&o.listen, "listen", defaultPage,
		"address and port of the page, on loopback unless others are to log in; if the default port is taken,"+
			" another one is used")
	o.gate.Add(f, "")
	f.StringVar(&o.selector, "node-selector", "", "show only nodes with these labels")
	f.StringVar(&o.resources, "resources", "cpu,memory",
		fmt.Sprintf("resources to count, at most %d, separated by commas; pods is one too", view.MaxResources))
	return c
}

func (o *webOptions) serve(ctx context.Context, out io.Writer, asked bool) error {
	policy, on, err := o.policy.Resolve()
	if err != nil {
		return err
	}
	if err := o.policy.Scheduler(&o.cluster.Scheduler); err != nil {
		return err
	}
	m, err := view.New(list(o.resources))
	if err != nil {
		return fmt.Errorf("--resources: %w", err)
	}
	t, err := o.cluster.Find()
	if err != nil {
		return err
	}
	l, others, err := o.gate.Listen(ctx, o.listen, asked)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer l.Close()
	klog.SetLogger(logr.Discard()) // what matters is in the page's notes
	fd, err := watcher.Start(ctx,
		watcher.Options{REST: t.REST, Context: t.Of, Selector: o.selector, Addresses: true, Model: m})
	if err != nil {
		return err
	}
	defer fd.Stop()
	p := webpage.Page{Cluster: t, Policy: policy, Gates: on, Model: m, Token: httpguard.NewToken()}
	p.Fill = func(context.Context) (func(context.Context) error, error) { return fd.Wait, nil }
	url := web.Link(l.Addr().String(), p.Token)
	if others { // who log in with a token of this cluster
		url = webpage.GatedURL(l)
		p.Certificate, p.Said = &o.gate, func(text string) { fmt.Fprintln(out, text) }
	} else {
		p.Clusters = o.clusters(t.Context, policy, on)
	}
	fmt.Fprintf(out, "%s is shown at %s\nCtrl-C ends it.\n", view.Escape(t.Of), url)
	return p.Run(ctx, l)
}

// clusters returns the clusters of all contexts of the kubeconfig; here is the context of the page's own.
func (o *webOptions) clusters(here string, policy model.Policy, on gates.Gates) *web.Clusters {
	names := target.Contexts(o.cluster.Kubeconfig)
	if !slices.Contains(names, here) {
		names = append([]string{here}, names...)
	}
	return &web.Clusters{Here: here, Names: names, Open: func(name string) (web.Options, error) {
		flags := o.cluster
		flags.Context = name
		t, err := flags.Find()
		if err != nil {
			return web.Options{}, err
		}
		p := webpage.Page{Cluster: t, Policy: policy, Gates: on, Resources: list(o.resources), Selector: o.selector}
		return p.Options()
	}}
}
