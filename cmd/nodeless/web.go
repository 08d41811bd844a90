package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/watcher"
	"github.com/nodeless/nodeless/view/web"
)

// defaultPage is where the page is unless somebody says otherwise; kube-ops-view's is there too.
const defaultPage = "127.0.0.1:8080"

type webOptions struct {
	cluster   clusterFlags
	choices   choices
	listen    string
	selector  string
	resources string
	gate      gateFlags
}

func newWeb() *cobra.Command {
	var o webOptions
	c := &cobra.Command{
		Use:   "web",
		Short: "Serve a page that shows the cluster live: nodes with pods and prices, why pods wait, and what was before",
		Long: `Serves a page for any cluster you may look at: a box for each node with its pods, what it costs and what it is about; the pods that
wait against the NodePools, with the reason; and a line of time on which to go back. It only reads, and needs nothing installed in the
cluster. /lite shows the same as tables, without script.

On a loopback address it asks for the token of the link that is printed, and shows what your kubeconfig may see. On any other it is served by TLS and asks for a bearer token of
the cluster (a login, or Authorization: Bearer): it shows what the token's owner may list, by SubjectAccessReview. Your kubeconfig needs the
ClusterRole system:auth-delegator for that. From another machine there is also ssh -L 8080:127.0.0.1:8080 HOST. The parameters of kube-ops-view's address work: http://127.0.0.1:8080/#scale=1.5;q=namespace=shop`,
		Example: `  nodeless web
  nodeless web --context prod --listen 127.0.0.1:9000
  nodeless web --listen 0.0.0.0:8443 --tls-cert page.crt --tls-key page.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.serve(cmd.Context(), cmd.OutOrStdout(), cmd.Flags().Changed("listen"))
		},
	}
	f := c.Flags()
	o.cluster.add(f)
	o.choices.add(f)
	f.StringVar(&o.listen, "listen", defaultPage,
		"address and port of the page, loopback unless people are to log in; another free port if this one is taken and you did not ask for it")
	o.gate.add(f, "")
	f.StringVar(&o.selector, "node-selector", "", "label selector of the nodes that are shown")
	f.StringVar(&o.resources, "resources", "cpu,memory",
		fmt.Sprintf("resources to count, at most %d, separated by commas; pods is one too", view.MaxResources))
	return c
}

func (o *webOptions) serve(ctx context.Context, out io.Writer, asked bool) error {
	policy, on, err := o.choices.gatedPolicy()
	if err != nil {
		return err
	}
	m, err := view.New(list(o.resources))
	if err != nil {
		return fmt.Errorf("--resources: %w", err)
	}
	t, err := o.cluster.find()
	if err != nil {
		return err
	}
	l, others, err := o.gate.listen(ctx, o.listen, asked)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer l.Close()
	klog.SetLogger(logr.Discard()) // what matters is a note on the page
	fd, err := watcher.Start(ctx, watcher.Options{REST: t.rest, Context: t.of, Selector: o.selector, Model: m})
	if err != nil {
		return err
	}
	defer fd.Stop()
	p := page{t: t, policy: policy, gates: on, model: m, token: httpguard.NewToken()}
	p.fill = func(context.Context) (func(context.Context) error, error) { return fd.Wait, nil }
	url := web.Link(l.Addr().String(), p.token)
	if others {
		url = gatedURL(l)
		p.certificate, p.said = &o.gate, func(text string) { fmt.Fprintln(out, text) }
	}
	fmt.Fprintf(out, "%s is shown at %s\nCtrl-C ends it.\n", view.Escape(t.of), url)
	return p.run(ctx, l)
}

// page is what is served of one cluster.
type page struct {
	t      *target
	policy model.Policy // with what the gates say of it
	gates  gates.Gates
	model  *view.Model // nil = one that is filled when somebody looks
	fill   func(context.Context) (wait func(context.Context) error, err error)
	token  string // of callers on this machine
	// certificate is for a page that is served to others: nil = to this machine alone. said takes what people should
	// know of it.
	certificate *gateFlags
	said        func(string)
}

// run serves the page until ctx is done.
func (p *page) run(ctx context.Context, l net.Listener) error {
	o := web.Options{
		Context: p.t.of, Prices: view.PriceSource(), Model: p.model, Policy: p.policy, Token: p.token,
		Open: func(ctx context.Context) (*capture.Cluster, error) {
			options := p.t.options
			options.Partial = true
			return capture.Open(ctx, p.t.rest, options)
		},
		Forecast: p.forecast(),
	}
	if p.t.clock != nil {
		o.Clock = p.t.clock
	}
	log, err := store.NewReader(p.t.rest)
	if err != nil {
		return err
	}
	o.Decisions = log
	if p.model == nil {
		m, err := view.New([]string{"cpu", "memory"})
		if err != nil {
			return err
		}
		o.Model = m
		p.fill = func(ctx context.Context) (func(context.Context) error, error) {
			f, err := watcher.Start(ctx, watcher.Options{REST: p.t.rest, Context: p.t.of, Model: m})
			if err != nil {
				return nil, err
			}
			return f.Wait, nil
		}
	}
	o.Fill = p.fill
	if p.certificate != nil {
		if o.Gate, err = p.gate(ctx, l, o.Model); err != nil {
			return err
		}
	}
	return web.New(o).Run(ctx, l)
}

// listenPage opens an address for the page. One that is taken is an error only if somebody asked for it.
func listenPage(ctx context.Context, address string, asked bool) (net.Listener, error) {
	l, err := web.Listen(ctx, address)
	if err == nil || asked {
		return l, err
	}
	return web.Listen(ctx, "127.0.0.1:0")
}
