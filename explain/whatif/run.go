package whatif

import (
	"cmp"
	"context"
	"fmt"
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
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/clock"
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
	clock *clock.Virtual
	world *cluster.World
	start time.Time

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
	commands []*command
	seq      int
	quietTil time.Time // no search for cheaper machines before

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
		claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{}, pods: map[types.NamespacedName]*corev1.Pod{},
		daemons: map[string]*appsv1.DaemonSet{}, pools: map[string]*karpv1.NodePool{}, was: formerOf(before),
		flying: map[string]*flying{}, leaving: map[string]time.Time{}, draining: map[string]bool{}, initial: map[string]Machine{},
	}
	r.world = cluster.New(cluster.Options{Clock: r.clock, NoStatic: !in.Gates.StaticCapacity})
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
	in.Cluster.OfferTo(ctx, r.world)
	r.boot = cmp.Or(in.Boot, measuredBoot(r.claims), usualBoot)
	r.first = r.state()
	s := r.world.Snapshot()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Claim != "" {
			r.initial[n.Claim] = machineOf(n)
		}
	}
	for name, claim := range r.claims {
		switch {
		case claim.DeletionTimestamp != nil:
			r.draining[name] = true
		case !isTrue(claim, karpv1.ConditionTypeInitialized):
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
	r.world.Update(o)
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
		busy = r.provision() || busy
		busy = r.advance() || busy
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
	case <-r.world.Changed():
		return true
	default:
		return false
	}
}

// provision answers the pods that wait.
func (r *run) provision() bool {
	s := r.world.Snapshot()
	plan := model.Plan{}
	if len(s.Pending) > 0 || slices.ContainsFunc(s.Pools, func(p model.Pool) bool { return p.Static }) {
		plan = engine.Provision(s, r.Policy)
	}
	r.unplaced = plan.Unplaced
	claims := map[string]string{}
	for i := range plan.Launches {
		l := &plan.Launches[i]
		m := r.launch(s, l, nil)
		if m.Name == "" {
			continue
		}
		claims[l.ID] = m.Name
		r.did(Step{What: Launch, Comes: []Machine{m}, Pods: len(l.Pods), Why: reason.Launch(s, *l)})
		r.quietTil = r.now().Add(cycle.AfterLaunch)
	}
	var promised map[model.PodKey]string
	if r.Gates.Nominations {
		promised = plan.PendingClaims(s, claims)
	}
	r.world.Nominate(plan.NominatedNodes(s), promised)
	return len(plan.Launches) > 0
}

// disrupt takes away what is not worth its price or not as it should be.
func (r *run) disrupt(ctx context.Context) (bool, error) {
	policy, done := r.Policy, false
	if r.now().Before(r.quietTil) {
		policy.MaxWhatIfs = -1
	}
	r.again, r.kept = time.Time{}, nil
	for {
		s := r.world.Snapshot()
		plan := engine.Disrupt(s, policy)
		for _, x := range plan.Removals {
			r.did(Step{What: Remove, Method: x.Method, Goes: r.machinesNamed(s, x), Pods: movers(s, x.Node), Budget: budgetOf(s, x), Why: reason.Removal(s, x)})
			r.startDrain(x.Claim)
			done = true
		}
		for _, c := range plan.Commands {
			done = r.begin(s, c) || done
		}
		r.again, r.kept = cycle.Sooner(r.again, plan.RecheckAt), append(r.kept, plan.Kept...)
		if policy.After = plan.After; policy.After == (model.Cursor{}) {
			return done, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
}
