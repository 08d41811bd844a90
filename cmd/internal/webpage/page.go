// Package webpage serves the page of one cluster, for the commands web, up and run.
package webpage

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/explain/why"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/objects"
	"github.com/nodeless/nodeless/view/watcher"
	"github.com/nodeless/nodeless/view/web"
)

// Page configures the page of one cluster.
type Page struct {
	Cluster *target.Cluster
	Policy  model.Policy // includes what the gates imply
	Gates   gates.Gates
	Model   *view.Model // nil = create one, which is filled when someone views the page
	Fill    func(context.Context) (wait func(context.Context) error, err error)
	// Resources and Selector say what a Model that is nil shows, and of which nodes. Default: cpu and memory of all.
	Resources []string
	Selector  string
	Token     string // for callers on this machine
	// Certificate is for a page that is served to others; nil = to this machine alone. Said receives what people should
	// know about it.
	Certificate *GateFlags
	Said        func(string)
	Controller  Controller // what a controller in this process reports
	// Clusters are those that the page can show; nil = its own alone.
	Clusters *web.Clusters
}

// Controller keeps the state on which the controller last decided, for what only its process knows.
type Controller struct {
	last atomic.Pointer[model.Snapshot]
}

// Decided records a decision.
func (c *Controller) Decided(d cycle.Decision) { c.last.Store(d.Snapshot) }

// Run serves the page until ctx is done.
func (p *Page) Run(ctx context.Context, l net.Listener) error {
	o, err := p.Options()
	if err != nil {
		return err
	}
	if p.Certificate != nil {
		if o.Gate, err = p.gate(ctx, l, o.Model); err != nil {
			return err
		}
	}
	return web.New(o).Run(ctx, l)
}

// Options returns the page's options, except for who is admitted from other machines.
func (p *Page) Options() (web.Options, error) {
	o := web.Options{
		Context: p.Cluster.Of, Prices: view.PriceSource(), Model: p.Model, Token: p.Token, Clusters: p.Clusters,
		Engine:   p.engine,
		Forecast: p.forecast(), Clock: clock.Real{},
	}
	if p.Cluster.Clock != nil {
		o.Clock = p.Cluster.Clock
	}
	log, err := store.NewReader(p.Cluster.REST)
	if err != nil {
		return o, err
	}
	o.Decisions = log
	if o.Object, err = objects.Reader(p.Cluster.REST); err != nil {
		return o, err
	}
	o.Hosts = hosts(p.Cluster.REST, o.Clock)
	if o.Usage, err = usage(p.Cluster.REST, o.Clock); err != nil {
		return o, err
	}
	if p.Model == nil {
		resources := p.Resources
		if len(resources) == 0 {
			resources = []string{"cpu", "memory"}
		}
		m, err := view.New(resources)
		if err != nil {
			return o, err
		}
		o.Model = m
		p.Fill = func(ctx context.Context) (func(context.Context) error, error) {
			f, err := watcher.Start(ctx, watcher.Options{
				REST: p.Cluster.REST, Context: p.Cluster.Of, Selector: p.Selector, Addresses: true, Model: m,
			})
			if err != nil {
				return nil, err
			}
			return f.Wait, nil
		}
	}
	o.Fill = p.Fill
	return o, nil
}

// engine starts watching the page's cluster for answers.
func (p *Page) engine(ctx context.Context) (web.Engine, error) {
	options := p.Cluster.Options
	options.Partial = true
	c, err := capture.Open(ctx, p.Cluster.REST, options)
	if err != nil {
		return nil, err
	}
	return &answers{c, p.Policy, &p.Controller}, nil
}

// answers are the answers about a cluster that is being watched.
type answers struct {
	cluster    *capture.Cluster
	policy     model.Policy
	controller *Controller
}

func (a *answers) Waiting(context.Context) (any, error) {
	return why.AllWaiting(a.cluster, a.policy), nil
}

func (a *answers) Offers(context.Context) (any, error) {
	return why.AllOffers(a.cluster, a.policy, a.controller.last.Load()), nil
}

func (a *answers) Addresses(context.Context) (any, error) {
	return why.AllAddresses(a.cluster, a.policy, a.controller.last.Load()), nil
}

func (a *answers) Why(ctx context.Context, namespace, of string) (any, error) {
	subject, err := why.Parse(namespace, of)
	if err != nil {
		return nil, web.Malformed{Err: err}
	}
	return why.Ask(ctx, a.cluster, a.policy, subject)
}

// Listen opens an address for the page. If the address is taken, it opens another, unless someone chose it.
func Listen(ctx context.Context, address string, asked bool) (net.Listener, error) {
	l, err := web.Listen(ctx, address)
	if err == nil || asked {
		return l, err
	}
	return web.Listen(ctx, "127.0.0.1:0")
}
