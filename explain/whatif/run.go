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
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

const (
	// defaultBoot is the boot time of a cluster without nodes to measure.
	defaultBoot = 40 * time.Second
	// terminationTime is the time from the last eviction until a node is terminated.
	terminationTime = 10 * time.Second
	// budgetPoll is how often budgets with a schedule are re-evaluated.
	budgetPoll = 15 * time.Minute
	// maxCycles stops a forecast that would never settle.
	maxCycles = 100_000
)

// run is one forecast in progress.
type run struct {
	Input
	clock   *clock.Virtual
	cluster *cluster.State
	start   time.Time

	claims          map[string]*karpv1.NodeClaim
	nodes           map[string]*corev1.Node // by name
	pods            map[types.NamespacedName]*corev1.Pod
	daemons         map[string]*appsv1.DaemonSet
	newest          map[string]*corev1.Pod // of each DaemonSet, see noteDaemonPod
	pdbs            []*policyv1.PodDisruptionBudget
	pools           map[string]*karpv1.NodePool
	was             before // before the change
	overlaysIgnored bool   // there are NodeOverlays, but their feature gate is off

	inFlight    map[string]*inFlight // by claim
	terminating map[string]time.Time // when the empty nodes of claims will be terminated
	draining    map[string]bool      // claims
	driver      *cycle.Driver
	seq         int

	initialState State
	initial      map[string]Node
	steps        []Step
	evictions    []Eviction
	unplaced     []model.Unplaced
	kept         []model.Kept
	retryAt      time.Time
	lastChange   time.Time // when anything was last done
	settled      bool
	boot         time.Duration
}

// newRun starts a run from objects. before are the objects without the change, nil if there is no change.
func newRun(ctx context.Context, in Input, objects, before []client.Object) (*run, error) {
	now := in.Cluster.Snapshot().Now
	r := &run{
		Input: in, clock: clock.NewVirtual(now), start: now, lastChange: now,
		claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{},
		pods:    map[types.NamespacedName]*corev1.Pod{},
		daemons: map[string]*appsv1.DaemonSet{}, newest: map[string]*corev1.Pod{},
		pools: map[string]*karpv1.NodePool{}, was: objectsBefore(before),
		inFlight: map[string]*inFlight{}, terminating: map[string]time.Time{}, draining: map[string]bool{},
		initial: map[string]Node{},
	}
	r.cluster = cluster.New(cluster.Options{
		Clock: r.clock, Scheduler: in.Cluster.Scheduler(), NoStatic: !in.Gates.StaticCapacity, NoExpected: true,
		NoDevices: in.Cluster.NoDevices(),
	})
	r.driver = cycle.NewDriver(cycle.Options{
		State: r.cluster, Applier: &applier{run: r}, Clock: r.clock, Policy: in.Policy, Promise: in.Gates.Nominations,
		Provision: provision, Disrupt: engine.Disrupt, StillTrue: engine.StillTrue, Check: checkPlan,
		Log: slog.New(slog.DiscardHandler),
	})
	in.Cluster.SetClasses(classesOf(objects))
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if pod, ok := o.(*corev1.Pod); ok && ending(pod) {
			if returns(pod) {
				r.makePod(pod)
			}
			continue
		}
		r.put(o)
	}
	for namespace := range changedNamespaces(objects, before) {
		r.recount(namespace)
	}
	in.Cluster.OfferTo(ctx, r.cluster)
	r.boot = cmp.Or(in.Boot, measuredBoot(r.claims), defaultBoot)
	r.initialState = r.state()
	s := r.cluster.Snapshot()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Claim != "" {
			r.initial[n.Claim] = nodeOfModel(n)
		}
	}
	for name, claim := range r.claims {
		switch {
		case claim.DeletionTimestamp != nil:
			r.draining[name] = true
		case !conditions.IsTrue(claim, karpv1.ConditionTypeInitialized):
			r.inFlight[name] = &inFlight{at: now.Add(r.boot), candidate: r.expectedOf(claim)}
		}
	}
	r.drainOrphans()
	return r, nil
}

// classesOf returns the node classes among objects, by the names of capture.ClassOf.
func classesOf(objects []client.Object) map[string]*ec2v1.EC2NodeClass {
	classes := map[string]*ec2v1.EC2NodeClass{}
	for _, o := range objects {
		if name, class := capture.ClassOf(o); class != nil {
			classes[name] = class
		}
	}
	return classes
}

// put creates or updates an object.
func (r *run) put(o client.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		r.pods[client.ObjectKeyFromObject(o)] = o
		r.noteDaemonPod(o)
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
		if r.overlaysIgnored = !r.Gates.NodeOverlay; r.overlaysIgnored {
			return
		}
	}
	r.cluster.Update(o)
}

func (r *run) now() time.Time { return r.clock.Now() }

func (r *run) after() float64 { return r.now().Sub(r.start).Seconds() }

// addStep records a step at the current time.
func (r *run) addStep(s Step) {
	s.AfterSeconds = r.after()
	r.steps, r.lastChange = append(r.steps, s), r.now()
}

// play advances the cluster until nothing changes any more or the horizon has passed.
func (r *run) play(ctx context.Context) error {
	look := true
	for range maxCycles {
		if err := ctx.Err(); err != nil {
			return err
		}
		busy := r.advanceNodes()
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
		if busy { // disrupt is costly: call it when nothing else is left to do
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
	return fmt.Errorf("the cluster does not come to rest in %d cycles, which is a bug; please report it with the "+
		"output of nodeless capture", maxCycles)
}

func (r *run) changed() bool {
	select {
	case <-r.cluster.Changed():
		return true
	default:
		return false
	}
}

// decide plans for the pending pods and advances commands in progress. It reports whether anything was done.
func (r *run) decide(ctx context.Context) (bool, error) {
	d := r.driver.Provision(ctx)
	r.driver.Advance(ctx, &d)
	r.unplaced = d.Plan.Unplaced
	return len(d.Result.Created)+len(d.Result.Finished)+len(d.Result.Undone) > 0, broken(d)
}

// disrupt removes and replaces nodes that are not worth their price or have drifted, and reports whether it did.
func (r *run) disrupt(ctx context.Context) (bool, error) {
	for done := false; ; {
		var d cycle.Decision
		r.retryAt = r.driver.Disrupt(ctx, &d)
		r.kept = d.Plan.Kept
		done = done || len(d.Result.Removed)+len(d.Result.Begun) > 0
		if err := cmp.Or(broken(d), ctx.Err()); err != nil || !r.driver.More() {
			return done, err
		}
	}
}

// broken returns an error if a plan failed its check.
func broken(d cycle.Decision) error {
	if len(d.Bad) == 0 {
		return nil
	}
	return fmt.Errorf("a plan failed its check, which is a bug; please report it with the output of nodeless capture: %s",
		d.Bad[0])
}

// provision is engine.Provision, but skips it while no pod is pending and no pool is static.
func provision(s *model.Snapshot, p model.Policy) model.Plan {
	if len(s.Pending) == 0 && !slices.ContainsFunc(s.Pools, func(p model.Pool) bool { return p.Static }) {
		return model.Plan{}
	}
	return engine.Provision(s, p)
}

// checkPlan is check.Plan for plans that decide something.
func checkPlan(s *model.Snapshot, policy model.Policy, p model.Plan) []check.Violation {
	if len(p.Placements)+len(p.Launches)+len(p.Unplaced)+len(p.Removals)+len(p.Commands) == 0 {
		return nil
	}
	return check.Plan(s, policy, p)
}
