package engine

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve"
	"github.com/nodeless/nodeless/lab/gen"
)

// What-ifs share their knowledge of a cluster and undo their changes. Each must give the same answer as one that
// starts from scratch on the projected cluster, whatever was tried and removed before.
func TestSharedWhatIfsAnswerAsFreshOnes(t *testing.T) {
	placed, moved, fragile, launches := 0, 0, 0, 0
	for seed := range uint64(1000) {
		s, policy := gen.Disruptive(seed), gen.DisruptionPolicy(seed)
		if seed%2 == 0 {
			roomy(s)
		}
		if seed%3 == 0 {
			limitAddresses(s, seed)
		}
		c := &consolidation{&proposals{savings: &savings{run: &run{
			s: s, policy: policy, projected: newProjection(s, policy),
		}}}}
		random := rand.New(rand.NewPCG(seed, 1))
		for turn := range 6 {
			to := destinations{undrifted: random.IntN(2) == 0, settled: random.IntN(2) == 0}
			if turn%3 == 0 {
				to = destinations{settled: true} // fragile uses it
			}
			victims := some(random, s.Nodes)
			names := map[string]bool{}
			for _, n := range victims {
				names[n.Name] = true
			}
			fresh := c.projected.open(to).s.Draining(names)
			want, plan := solve.Placements(fresh, policy), solve.ProvisionPods(fresh, policy).Explained()
			firstFit := policy
			firstFit.Solver = model.FirstFit
			var got []model.Placement
			c.projected.open(to).without(victims, func(places *solve.Cluster, moving []model.Pod) {
				if !slices.Equal(moving, fresh.Pending) {
					t.Fatalf("seed %d: other pods move: %v, from the beginning %v", seed, moving, fresh.Pending)
				}
				got = places.Placements(moving, &policy)
				if shared := places.ProvisionPods(moving, policy); !reflect.DeepEqual(shared, plan) {
					t.Fatalf("seed %d, turn %d: the plan is %+v, from the beginning %+v", seed, turn, shared, plan)
				}
				if shared, fresh := places.ProvisionPods(moving, firstFit),
					solve.ProvisionPods(fresh, firstFit).Explained(); !reflect.DeepEqual(shared, fresh) {
					t.Fatalf("seed %d, turn %d: by first fit the plan is %+v, from the beginning %+v", seed, turn, shared, fresh)
				}
			})
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, turn %d: %v, from the beginning %v", seed, turn, got, want)
			}
			placed += len(got)
			if len(plan.Unplaced) > 0 || len(fresh.Pending) == 0 {
				continue
			}
			p := &proposal{victims: victims, moving: slices.Clone(fresh.Pending), plan: plan}
			next := done(fresh, &p.plan)
			for i := range plan.Launches {
				fresh.Nodes = append(fresh.Nodes, ready(fresh, &plan.Launches[i], fresh.Pending))
				launches++
			}
			if to == (destinations{settled: true}) {
				reason, wrong := c.fragile(p)
				again := model.PodKey{}
				if len(fresh.Pending) > 1 {
					again = lost(fresh)
				}
				if (reason.Rule != "") != (again != model.PodKey{}) || reason.Rule != "" && reason.Object != podName(again) {
					t.Fatalf("seed %d, turn %d: %v, from the beginning %v", seed, turn, reason, again)
				}
				if reason.Rule != "" {
					fragile++
					if len(wrong.left) == 0 || podName(wrong.left[0].PodKey) != reason.Object {
						t.Fatalf("seed %d, turn %d: %v, but %v have no place", seed, turn, reason, wrong.left)
					}
				}
			}
			moved++
			c.projected.apply(&p.plan, victims)
			c.expectWorld(t, seed, next)
		}
	}
	if placed < 1000 || moved < 200 || fragile < 1 || launches < 200 {
		t.Errorf("%d pods had places, %d times all, %d times only as planned, with %d launches: too few to show anything",
			placed, moved, fragile, launches)
	}
}

// limitAddresses gives every zone a subnet with addresses for a few nodes.
func limitAddresses(s *model.Snapshot, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 9))
	var zones []string
	for i := range s.Pools {
		p := &s.Pools[i]
		p.Types = slices.Clone(p.Types)
		for k := range p.Types {
			p.Types[k].Addresses = []model.AddressStep{{Pods: 2, Addresses: 10 + r.Int64N(10)}, {Pods: 30, Addresses: 20}}
			for _, o := range p.Types[k].Offerings {
				zones = append(zones, o.Zone)
			}
		}
	}
	slices.Sort(zones)
	for _, zone := range slices.Compact(zones) {
		s.Subnets = append(s.Subnets, model.Subnet{ID: zone, Zone: zone, Free: r.Int64N(150)})
		for i := range s.Pools {
			s.Pools[i].Subnets = append(s.Pools[i].Subnets, zone)
		}
	}
}

// expectWorld fails the test if the projected cluster is not what the plan makes of it, or if a cached view differs
// from a fresh one.
func (c *consolidation) expectWorld(t *testing.T, seed uint64, want *model.Snapshot) {
	t.Helper()
	if c.projected.apart {
		want.Nodes = slices.DeleteFunc(want.Nodes, func(n model.Node) bool { return strings.HasPrefix(n.Name, "launch ") })
	}
	if !slices.Equal(c.projected.now.Subnets, want.Subnets) {
		t.Fatalf("seed %d: the subnets are %+v, from the beginning %+v", seed, c.projected.now.Subnets, want.Subnets)
	}
	for i := range want.Nodes {
		a, b := c.projected.now.Nodes[i], want.Nodes[i]
		if a.Deleting = b.Deleting; !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %s is %+v, from the beginning %+v", seed, a.Name, a, b)
		}
	}
	shared := c.projected.views
	c.projected.views = map[destinations]*overlay{}
	for to, v := range shared {
		if fresh := c.projected.open(to); !reflect.DeepEqual(v.s, fresh.s) {
			t.Fatalf("seed %d, %+v: %+v, from the beginning %+v", seed, to, v.s.Nodes, fresh.s.Nodes)
		}
	}
	c.projected.views = shared
}

// lost returns what fragile returns, by evaluating one node after another.
func lost(s *model.Snapshot) model.PodKey {
	pods := slices.DeleteFunc(slices.Clone(s.Pending), func(x model.Pod) bool { return x.Virtual })
	if len(pods) < 2 {
		return model.PodKey{}
	}
	for _, by := range orders {
		by.sort(s.Shapes, pods)
		state, left, before := rules.NewState(s), pods, -1
		for len(left) > 0 && len(left) != before {
			before = len(left)
			left = slices.DeleteFunc(slices.Clone(left), func(x model.Pod) bool {
				best, most := -1, 0.0
				for i := range s.Nodes {
					if s.Nodes[i].Cordoned || state.Allows(x.Shape, i) != "" {
						continue
					}
					if free := by.free(state, i, &s.Shapes[x.Shape].Requests); best < 0 || free > most {
						best, most = i, free
					}
				}
				if best >= 0 {
					state.Bind(x.Shape, best)
				}
				return best >= 0
			})
		}
		if len(left) > 0 {
			return left[0].PodKey
		}
	}
	return model.PodKey{}
}

// roomy makes nodes larger, and cordons some of them.
func roomy(s *model.Snapshot) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Allocatable, n.Cordoned = n.Allocatable.Times(2), i%5 == 4
	}
}

// some returns up to three of the nodes, in random order.
func some(random *rand.Rand, nodes []model.Node) (out []*model.Node) {
	for _, i := range random.Perm(len(nodes))[:min(len(nodes), 1+random.IntN(3))] {
		if !nodes[i].Deleting {
			out = append(out, &nodes[i])
		}
	}
	return out
}
