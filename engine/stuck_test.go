package engine_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
	"github.com/nodeless/nodeless/lab/scenario"
)

// course is the history of a cluster that was planned every quarter of an hour.
type course struct {
	rounds, moves, launches int // plans with changes; moved pods; launched nodes
	end                     *model.Snapshot
}

const lookEvery = 15 * time.Minute

// until carries out plans for up to a day, until there is nothing to do for an hour. Moved pods are new pods; place
// decides where they go and returns the next cluster.
func until(t *testing.T, s *model.Snapshot, policy model.Policy,
	place func(*model.Snapshot, model.Plan) *model.Snapshot,
) course {
	t.Helper()
	c, quiet := course{end: s}, 0
	for range int(24 * time.Hour / lookEvery) {
		plan := engine.Disrupt(c.end, policy)
		for _, v := range check.Plan(c.end, policy, plan) {
			if !v.Unproven {
				t.Fatal(v.Error())
			}
		}
		policy.After = plan.After
		next := *c.end
		if len(plan.Removals)+len(plan.Commands) > 0 {
			c.rounds++
			next, quiet = *place(c.end, plan), 0
		} else if quiet++; quiet > int(time.Hour/lookEvery) {
			return c
		}
		moved, machines := began(c.end, &next)
		c.moves, c.launches = c.moves+moved, c.launches+machines
		next.Now = next.Now.Add(lookEvery)
		c.end = &next
	}
	t.Fatalf("after a day of %d rounds, %d moves and %d launches machines still come and go", c.rounds, c.moves,
		c.launches)
	return c
}

// began restarts the age of pods that are on another node than before, and counts them and the new nodes.
func began(before, after *model.Snapshot) (moved, machines int) {
	on, there := map[model.PodKey]string{}, map[string]bool{}
	for i := range before.Nodes {
		there[before.Nodes[i].Name] = true
		for _, p := range before.Nodes[i].Pods {
			on[p.PodKey] = before.Nodes[i].Name
		}
	}
	for i := range after.Nodes {
		n := &after.Nodes[i]
		if !there[n.Name] {
			machines++
			n.Initialized = after.Now
		}
		n.Pods = slices.Clone(n.Pods)
		for k := range n.Pods {
			if on[n.Pods[k].PodKey] != n.Name {
				n.Pods[k].Created = after.Now
				moved++
			}
		}
	}
	return moved, machines
}

// asPlanned places every pod as planned.
func asPlanned(t *testing.T) func(*model.Snapshot, model.Plan) *model.Snapshot {
	return func(s *model.Snapshot, plan model.Plan) *model.Snapshot { return carriedOut(t, s, plan) }
}

// asScheduled places moving pods as kube-scheduler does: in the order of their names, each on the node that it leaves
// with the most free capacity (NodeResourcesFit LeastAllocated), whatever the plan says. Pods that fit nowhere are
// provisioned for.
func asScheduled(t *testing.T) func(*model.Snapshot, model.Plan) *model.Snapshot {
	return func(s *model.Snapshot, plan model.Plan) *model.Snapshot {
		out := carriedOut(t, s, plan)
		on := map[model.PodKey]string{}
		for i := range s.Nodes {
			for _, p := range s.Nodes[i].Pods {
				on[p.PodKey] = s.Nodes[i].Name
			}
		}
		var moving []model.BoundPod
		for i := range out.Nodes {
			n := &out.Nodes[i]
			n.Pods = slices.DeleteFunc(slices.Clone(n.Pods), func(p model.BoundPod) bool {
				if on[p.PodKey] == n.Name {
					return false
				}
				n.Used = n.Used.Minus(s.Shapes[p.Shape].Requests)
				moving = append(moving, p)
				return true
			})
		}
		slices.SortFunc(moving, func(a, b model.BoundPod) int { return cmp.Compare(a.Name, b.Name) })
		for _, p := range moving {
			schedule(out, p)
		}
		more := engine.Provision(out, model.Policy{})
		if len(more.Unplaced) > 0 {
			t.Fatalf("%d pods that moved have no place", len(more.Unplaced))
		}
		for i := range more.Launches {
			n := launchedNode(out, &more.Launches[i])
			// moved pods are new pods, so this launch differs from the plan's launch for them
			n.Name, n.Claim = n.Name+"-again", n.Claim+"-again"
			for _, k := range more.Launches[i].Pods {
				at := slices.IndexFunc(moving, func(p model.BoundPod) bool { return p.PodKey == k })
				n.Pods, n.Used = append(n.Pods, moving[at]), n.Used.Plus(out.Shapes[moving[at].Shape].Requests)
			}
			out.Nodes = append(out.Nodes, n)
		}
		out.Pending = nil
		return model.Canonical(gen.Shuffle(out, 0))
	}
}

func schedule(s *model.Snapshot, p model.BoundPod) {
	asks, best, most := s.Shapes[p.Shape].Requests, -1, -1.0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		left := n.Free().Minus(asks)
		if slices.ContainsFunc(left[:], func(x int64) bool { return x < 0 }) {
			continue
		}
		free := float64(left[model.CPU])/float64(n.Allocatable[model.CPU]) + float64(left[model.Memory])/float64(
			n.Allocatable[model.Memory])
		if free > most {
			best, most = i, free
		}
	}
	if best < 0 {
		s.Pending = append(s.Pending, p.Pod)
		return
	}
	n := &s.Nodes[best]
	n.Pods, n.Used = append(n.Pods, p), n.Used.Plus(asks)
}

func clusterOf(t *testing.T, text string) (*model.Snapshot, model.Policy) {
	t.Helper()
	s, policy, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s, policy
}

// A node whose pods fit on two cheaper nodes is replaced by them, once (kubernetes-sigs/karpenter 1442).
func TestNodeIsReplacedByTwoCheaperOnes(t *testing.T) {
	s, policy := clusterOf(t, `
type s2 cpu=2 memory=8Gi pods=30 offers(a on-demand 0.1)
type s8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.4)
type s16 cpu=16 memory=64Gi pods=110 offers(a on-demand 0.8)
pool general disrupt(underused=9)
shape big cpu=7
shape small cpu=500m
node n1 pool=general type=s16 zone=a capacity-type=on-demand price=0.8 ready=2h
     runs(db as big age=2h, web-1 as small age=2h, web-2 as small age=2h, web-3 as small age=2h)`)
	c := until(t, s, policy, asPlanned(t))
	if c.rounds != 1 || price(c.end) != 500_000 || c.moves != 4 {
		t.Errorf("%d rounds, %d moves, it costs %d in the end: %+v", c.rounds, c.moves, price(c.end), c.end.Nodes)
	}
}

// Of fifty under-used nodes, those that cost most for their pods cannot be replaced by cheaper ones: the others are
// consolidated into fewer larger ones (aws/karpenter-provider-aws 9207).
func TestConsolidationPassesNodesThatCannotMove(t *testing.T) {
	text := `
type s8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.4)
type s32 cpu=32 memory=128Gi pods=110 offers(a on-demand 1.45)
pool general types(s8, s32) disrupt(underused=50, empty=50)
shape web cpu=3
shape alone cpu=1 anti(hostname: app=alone) labels(app=alone)
`
	for i := range 10 {
		text += fmt.Sprintf("node first-%02d pool=general type=s8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(alone-%02d as alone age=5h do-not-disrupt)\n", i, i)
	}
	for i := range 40 {
		text += fmt.Sprintf("node other-%02d pool=general type=s8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(web-%02d-a as web age=5h, web-%02d-b as web age=5h)\n", i, i, i)
	}
	s, policy := clusterOf(t, text)
	c := until(t, s, policy, asPlanned(t))
	// The ten nodes that cannot be removed take twenty of the pods, six larger ones the other sixty: $4 and 6 x $1.45.
	if c.rounds != 1 || c.moves != 80 || price(c.end) != 12_700_000 {
		t.Errorf("%d rounds, %d moves, from %d to %d", c.rounds, c.moves, price(s), price(c.end))
	}
}

// churning returns a well-packed cluster of xlarge nodes from which some pods have just been deleted.
func churning(seed uint64) *model.Snapshot {
	r := rand.New(rand.NewPCG(seed, 8536))
	s := &model.Snapshot{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ResourceNames: model.WellKnownResources}
	var types []model.InstanceType
	for _, size := range []struct {
		name string
		cpu  int64
	}{{"large", 2}, {"xlarge", 4}, {"2xlarge", 8}, {"4xlarge", 16}} {
		for _, f := range []struct {
			name string
			gib  int64
			core model.Price
		}{{"c6a", 2, 38_250}, {"m6a", 4, 43_200}, {"r7i", 8, 66_150}} {
			t := model.InstanceType{
				Name:         f.name + "." + size.name,
				Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, f.name+"."+size.name)),
				Capacity:     model.Resources{model.CPU: size.cpu * 1000, model.Memory: size.cpu * f.gib << 30, model.Pods: 58},
				Offerings: []model.Offering{{
					Zone: "a", CapacityType: model.OnDemand, Price: f.core * model.Price(size.cpu),
					Available: true,
				}},
			}
			t.Allocatable = t.Capacity.Minus(model.Resources{model.CPU: 80, model.Memory: 900 << 20})
			types = append(types, t)
		}
	}
	slices.SortFunc(types, func(a, b model.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	s.Pools = []model.Pool{{
		Name: "general", Types: types,
		Disruption: model.DisruptionPolicy{AllowedEmpty: 3, AllowedUnderused: 3},
	}}
	for range 12 {
		s.Shapes = append(s.Shapes,
			model.Shape{Requests: model.Resources{
				model.CPU:    100 + r.Int64N(1900),
				model.Memory: (200 + r.Int64N(3000)) << 20, model.Pods: 1,
			}})
	}
	for i := range 120 {
		s.Pending = append(s.Pending,
			model.Pod{
				PodKey: model.PodKey{Namespace: "default", Name: fmt.Sprintf("pod-%03d", i), UID: fmt.Sprint(i)},
				Shape:  r.IntN(len(s.Shapes)), Created: s.Now.Add(-6 * time.Hour),
			})
	}
	s = model.Canonical(s)
	plan := engine.Provision(s, model.Policy{})
	pods := map[model.PodKey]model.Pod{}
	for _, p := range s.Pending {
		pods[p.PodKey] = p
	}
	s.Pending = nil
	for i := range plan.Launches {
		n := launchedNode(s, &plan.Launches[i])
		for _, k := range plan.Launches[i].Pods {
			if r.IntN(5) == 0 {
				continue
			}
			n.Pods, n.Used = append(n.Pods, model.BoundPod{Pod: pods[k], EvictionCost: 1000}),
				n.Used.Plus(s.Shapes[pods[k].Shape].Requests)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return model.Canonical(s)
}

// If kube-scheduler places pods differently from the plan, consolidation still terminates, and the cluster ends up
// cheaper (aws/karpenter-provider-aws 8536: 14 hours of the same nodes coming and going). Without RuleFragile the
// worst of these clusters has 830 moves and 233 launches in a day, and does not terminate.
func TestNodesDoNotChurn(t *testing.T) {
	for seed := range uint64(15) {
		s := churning(seed)
		c := until(t, s, model.Policy{}, asScheduled(t))
		if c.rounds > 3 || price(c.end)*100 > price(s)*95 {
			t.Errorf("seed %d: %d rounds, %d moves and %d launches, from %d to %d", seed, c.rounds, c.moves, c.launches,
				price(s), price(c.end))
		}
	}
}
