package controller

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/ahead"
	"github.com/nodeless/nodeless/controller/apply"
	"github.com/nodeless/nodeless/controller/automode"
	"github.com/nodeless/nodeless/controller/buffers"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/controller/nodeclaim"
	"github.com/nodeless/nodeless/controller/nodegroup"
	"github.com/nodeless/nodeless/controller/status"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/explain/record/store"
)

// components are the parts that Run assembles.
type components struct {
	cache      cache.Cache
	state      *cluster.State
	applier    *apply.Applier
	nodeClaims *nodeclaim.Controller
	gates      gates.Gates
	networks   bool // the cluster has ENIConfigs
	status     *status.Controller
	registry   *prometheus.Registry
	counters   *metrics.Counters
	events     record.EventBroadcaster
	api        client.Client       // of the API server itself
	buffers    *buffers.Controller // nil if the gate is closed
	ahead      *ahead.Controller
	fargate    *fargateComponents    // nil if Options.Fargate is
	autoMode   *automode.Controller  // nil if Options.AutoMode is
	nodeGroups *nodegroup.Controller // nil if the cluster has no NodeGroups
	records    *store.Recorder
	progress   func() // of the decision cycle
}

// run runs the components until one of them fails or ctx is done, and returns after all have stopped. It calls end
// with the cause, which stops everything that uses the context of the whole process.
func (r *components) run(ctx context.Context, end context.CancelCauseFunc, o Options, h *health) error {
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })()
	group.Go(func() error { return r.cache.Start(ctx) })
	group.Go(func() error {
		if err := r.state.Attach(ctx, r.cache); err != nil {
			return err
		}
		if !r.cache.WaitForCacheSync(ctx) {
			return context.Cause(ctx)
		}
		h.synced.Store(true)
		if r.fargate != nil {
			group.Go(func() error { return r.fargate.serve(ctx) })
			r.fargate.awaitWebhook(ctx, o.Clock)
		}
		return lead(ctx, o, func(ctx context.Context) error {
			if o.OnReady != nil {
				o.OnReady()
			}
			return r.runLeader(ctx, o)
		})
	})
	return group.Wait()
}

// prime adds the placeholders of all expected pods to the cluster state. Before that, nodes launched for them look
// empty.
func (r *components) prime(ctx context.Context) error {
	if r.buffers != nil {
		if err := r.buffers.Prime(ctx); err != nil {
			return err
		}
	}
	return r.ahead.Prime(ctx)
}

// runLeader runs what only the leader does.
func (r *components) runLeader(ctx context.Context, o Options) error {
	badPlans := ""
	if o.DataDir != "" {
		badPlans = filepath.Join(o.DataDir, "bad-plans")
	}
	m, err := r.observe(ctx, o)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.nodeClaims.Run(ctx) })
	group.Go(func() error { return r.status.Run(ctx) })
	group.Go(func() error { return r.records.Run(ctx) })
	defer r.records.Finish(ctx)
	if r.fargate != nil {
		r.fargate.lead(ctx, group)
	} else if o.Service.Name != "" {
		group.Go(func() error { return r.retireWebhook(ctx, o) })
	}
	if r.nodeGroups != nil {
		group.Go(func() error { return r.nodeGroups.Run(ctx) })
	}
	if r.autoMode != nil {
		group.Go(func() error { return r.autoMode.Run(ctx) })
	}
	group.Go(func() error {
		if err := r.prime(ctx); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
		if r.buffers != nil {
			group.Go(func() error { return r.buffers.Run(ctx) })
		}
		group.Go(func() error { return r.ahead.Run(ctx) })
		provisioner, disrupter := engine.NewProvisioner(), engine.NewDisrupter()
		return cycle.Run(ctx, cycle.Options{
			Provision: provisioner.Decide, Explain: provisioner.Explain, Disrupt: disrupter.Disrupt, StillTrue: engine.StillTrue,
			Answered: check.Answered,
			Progress: r.progress,
			State:    r.state, Applier: r.applier, Recall: r.applier.Resync,
			Policy: o.Policy, BatchIdle: o.BatchIdle, BatchMax: o.BatchMax, Promise: r.gates.Nominations, Clock: o.Clock,
			Log:      o.Log,
			BadPlans: badPlans,
			OnDecision: func(d cycle.Decision) {
				m.observe(d)
				r.records.Decided(recordOf(d, o.Policy))
				r.nodeClaims.Decided(d.Snapshot, d.Plan, d.Result.Claims)
				r.status.Decided()
				r.ahead.Decided(d.Snapshot, &d.Plan)
				if r.buffers != nil {
					r.buffers.Decided(d.Snapshot, &d.Plan)
				}
				if o.OnDecision != nil {
					o.OnDecision(d)
				}
			},
		})
	})
	return group.Wait()
}
