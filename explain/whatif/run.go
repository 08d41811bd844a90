package whatif

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

const (
	// usualBoot is how long machines take where none of the cluster's tells.
	usualBoot = 40 * time.Second
	// leaving is how long it takes from the last eviction until a machine is gone.
	leaving = 10 * time.Second
	// probe is how often budgets are looked at that go by the clock.
	probe = 15 * time.Minute
	// mostTurns ends a forecast that would go on for ever.
	mostTurns = 100_000
)

// run is one forecast under way.
type run struct {
	Input
	clock   *clock.Virtual
	cluster *cluster.State
	start   time.Time

	claims  map[string]*karpv1.NodeClaim
	nodes   map[string]*corev1.Node // by name
	pods    map[types.NamespacedName]*corev1.Pod
	daemons map[string]*appsv1.DaemonSet
	pdbs    []*policyv1.PodDisruptionBudget
	pools   map[string]*karpv1.NodePool
	was     former // before the change
	idle    bool   // there are NodeOverlays, and nobody acts upon them

	flying   map[string]*flying   // by claim
	leaving  map[string]time.Time // claims whose machine is empty, until it is gone
	draining map[string]bool      // claims
	driver   *cycle.Driver
	seq      int

	first     State
	initial   map[string]Machine
	steps     []Step
	evictions []Eviction
	unplaced  []model.Unplaced
	kept      []model.Kept
	again     time.Time
	last      time.Time // when something was last done
	settled   bool
	boot      time.Duration
}

// newRun fills a world with objects. before are those without the change, nil if there is none.
func newRun(ctx context.Context, in Input, objects, before []client.Object) (*run, error) {
	now := in.Cluster.Snapshot().Now
	r := &run{
		Input: in, clock: clock.NewVirtual(now), start: now, last: now,
		claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{},
		pods:    map[types.NamespacedName]*corev1.Pod{},
		daemons: map[string]*appsv1.DaemonSet{}, pools: map[string]*karpv1.NodePool{}, was: formerOf(before),
		flying: map[string]*flying{}, leaving: map[string]time.Time{}, draining: map[string]bool{},
		initial: map[string]Machine{},
	}
	r.cluster = cluster.New(cluster.Options{Clock: r.clock, NoStatic: !in.Gates.StaticCapacity})
	r.driver = cycle.NewDriver(cycle.Options{
		State: r.cluster, Applier: &applier{run: r}, Clock: r.clock, Policy: in.Policy, Promise: in.Gates.Nominations,
		Provision: provision, Disrupt: engine.Disrupt, StillTrue: engine.StillTrue, Check: judge, Log: slog.New(slog.DiscardHandler),
	})
	classes := map[string]*ec2v1.EC2NodeClass{}
	for _, o := range objects {
		if class, ok := o.(*ec2v1.EC2NodeClass); ok {
			classes[class.Name] = class
		}
	}
	in.Cluster.SetClasses(classes)
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.put(o)
	}
	in.Cluster.OfferTo(ctx, r.cluster)
	r.boot = cmp.Or(in.Boot, measuredBoot(r.claims), usualBoot)
	r.first = r.state()
	s := r.cluster.Snapshot()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Claim != "" {
			r.initial[n.Claim] = machineOf(n)
		}
	}
	for name, claim := range r.claims {
		switch {
		case claim.DeletionTimestamp != nil:
			r.draining[name] = true
		case !conditions.IsTrue(claim, karpv1.ConditionTypeInitialized):
			r.flying[name] = &flying{at: now.Add(r.boot), candidate: r.expectedOf(claim)}
		}
	}
	r.orphans()
	return r, nil
}

// put takes in an object as it is now.
func (r *run) put(o client.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		r.pods[client.ObjectKeyFromObject(o)] = o
	case *corev1.Node:
		r.nodes[o.Name] = o
	case *karpv1.NodeClaim:
		r.claims[o.Name] = o
	case *karpv1.NodePool:
		r.pools[o.Name] = o
	case *appsv1.DaemonSet:
		r.daemons[o.Namespace+"/"+o.Name] = o
	case *policyv1.PodDisruptionBudget:
		r.pdbs = append(r.pdbs, o)
	case *karpv1alpha1.NodeOverlay:
		if r.idle = !r.Gates.NodeOverlay; r.idle {
			return
		}
	}
	r.cluster.Update(o)
}

func (r *run) now() time.Time { return r.clock.Now() }

func (r *run) after() float64 { return r.now().Sub(r.start).Seconds() }

// did notes that something would be done.
func (r *run) did(s Step) {
	s.AfterSeconds = r.after()
	r.steps, r.last = append(r.steps, s), r.now()
}

// play carries the cluster forward until nothing changes any more.
func (r *run) play(ctx context.Context) error {
	look := true
	for range mostTurns {
		if err := ctx.Err(); err != nil {
			return err
		}
		busy := r.machines()
		r.drift()
		busy = r.daemonPods() || busy
		busy = r.bind(ctx) || busy
		decided, err := r.decide(ctx)
		if err != nil {
			return err
		}
		busy = decided || busy
		busy = r.drain() || busy
		look = r.changed() || busy || look
		if busy { // the costly question is asked when all has its place
			continue
		}
		if look {
			var err error
			if look, err = r.disrupt(ctx); err != nil {
				return err
			}
			if look {
				continue
			}
		}
		next := r.next()
		if r.settled = next.IsZero(); r.settled || next.Sub(r.start) > r.Horizon {
			return nil
		}
		r.clock.Advance(next.Sub(r.now()))
		look = true
	}
	return fmt.Errorf("the cluster does not come to rest in %d turns, which is a bug; please report it with the output of nodeless capture", mostTurns)
}

func (r *run) changed() bool {
	select {
	case <-r.cluster.Changed():
		return true
	default:
		return false
	}
}

// decide answers the pending pods and carries on the commands under way, and reports whether anything was done.
func (r *run) decide(ctx context.Context) (bool, error) {
	d := r.driver.Provision(ctx)
	r.driver.Advance(ctx, &d)
	r.unplaced = d.Plan.Unplaced
	return len(d.Result.Created)+len(d.Result.Finished)+len(d.Result.Undone) > 0, broken(d)
}

// disrupt removes and replaces nodes that are not worth their price or not as they should be, and reports whether it
// did.
func (r *run) disrupt(ctx context.Context) (bool, error) {
	for done := false; ; {
		var d cycle.Decision
		r.again = r.driver.Disrupt(ctx, &d)
		r.kept = d.Plan.Kept
		done = done || len(d.Result.Removed)+len(d.Result.Begun) > 0
		if err := cmp.Or(broken(d), ctx.Err()); err != nil || !r.driver.More() {
			return done, err
		}
	}
}

// broken is the error of a decision whose plan broke a promise.
func broken(d cycle.Decision) error {
	if len(d.Bad) == 0 {
		return nil
	}
	return fmt.Errorf("a plan broke a promise, which is a bug; please report it with the output of nodeless capture: %s", d.Bad[0])
}

// provision is engine.Provision, which is not asked while no pod waits and no pool keeps a number of nodes.
func provision(s *model.Snapshot, p model.Policy) model.Plan {
	if len(s.Pending) == 0 && !slices.ContainsFunc(s.Pools, func(p model.Pool) bool { return p.Static }) {
		return model.Plan{}
	}
	return engine.Provision(s, p)
}

// judge is check.Plan of plans that decide something.
func judge(s *model.Snapshot, policy model.Policy, p model.Plan) []check.Violation {
	if len(p.Placements)+len(p.Launches)+len(p.Unplaced)+len(p.Removals)+len(p.Commands) == 0 {
		return nil
	}
	return check.Plan(s, policy, p)
}
