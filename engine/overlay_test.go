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

// What-ifs share what is known of a cluster, and take back what they did. Each must answer as one that begins anew
// from the cluster as it would be, whatever was tried before and whatever went since.
func TestSharedWhatIfsAnswerAsFreshOnes(t *testing.T) {
	placed, moved, fragile, launches := 0, 0, 0, 0
	for seed := range uint64(1000) {
		s, policy := gen.Disruptive(seed), gen.DisruptionPolicy(seed)
		if seed%2 == 0 {
			roomy(s)
		}
		c := &consolidation{&proposals{savings: &savings{run: &run{
			s: s, policy: policy, projected: newProjection(s, policy),
		}}}}
		random := rand.New(rand.NewPCG(seed, 1))
		for turn := range 6 {
			to := destinations{undrifted: random.IntN(2) == 0, settled: random.IntN(2) == 0}
			if turn%3 == 0 {
				to = destinations{settled: true} // fragile looks there
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

// expectWorld says where the world is not what the plan made of it, or a view not what it would be if it were made now.
func (c *consolidation) expectWorld(t *testing.T, seed uint64, want *model.Snapshot) {
	t.Helper()
	if c.projected.apart {
		want.Nodes = slices.DeleteFunc(want.Nodes, func(n model.Node) bool { return strings.HasPrefix(n.Name, "launch ") })
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

// lost is what fragile says, one node looked at after the other.
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

// roomy makes nodes larger, and some of them cordoned.
func roomy(s *model.Snapshot) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Allocatable, n.Cordoned = n.Allocatable.Times(2), i%5 == 4
	}
}

// some are up to four of the nodes, in no order.
func some(random *rand.Rand, nodes []model.Node) (out []*model.Node) {
	for _, i := range random.Perm(len(nodes))[:min(len(nodes), 1+random.IntN(3))] {
		if !nodes[i].Deleting {
			out = append(out, &nodes[i])
		}
	}
	return out
}
