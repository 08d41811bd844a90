package solve

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// forPods is the snapshot in which static pools launch nothing: pods may use what they have, but get nothing new there.
func forPods(s *model.Snapshot) *model.Snapshot {
	if !slices.ContainsFunc(s.Pools, func(p model.Pool) bool { return p.Static && p.NotReady == "" }) {
		return s
	}
	out := *s
	out.Pools = slices.Clone(s.Pools)
	for i := range out.Pools {
		if p := &out.Pools[i]; p.Static && p.NotReady == "" {
			p.NotReady = "a static NodePool (spec.replicas) takes no pending pods"
		}
	}
	return &out
}

// missing are the launches that bring every static pool to its replicas, as far as its limits let it. Machines that go are
// no replicas any more, but count in limits.nodes as long as they exist.
func missing(s *model.Snapshot, policy model.Policy) []model.Launch {
	var out []model.Launch
	for i := range s.Pools {
		p := &s.Pools[i]
		if !p.Static || p.NotReady != "" {
			continue
		}
		running, identity := int64(0), ""
		for k := range s.Nodes {
			n := &s.Nodes[k]
			if n.Claim == "" || n.Pool != p.Name {
				continue
			}
			identity += strconv.Quote(n.Claim) + " "
			if !n.Deleting {
				running++
			}
		}
		out = append(out, Static(s, policy, p.Name, p.Replicas-running, identity)...)
	}
	return out
}

// mostStatic is the most machines that one plan launches without pods in a pool; the next plan goes on.
const mostStatic = 1000

// Static are up to n launches without pods in the pool, within its limits: the cheapest offering that it allows and on which
// its daemons fit. identity tells them from other launches of the same pool: equal identities give equal IDs, so a plan that
// is made again from the same machines launches the same ones.
func Static(s *model.Snapshot, policy model.Policy, pool string, n int64, identity string) []model.Launch {
	i := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == pool })
	if i < 0 || n <= 0 || s.Pools[i].NotReady != "" {
		return nil
	}
	v := rules.NewView(&s.Pools[i], s.Daemons)
	v.ApplyPolicy(&policy)
	p := &problem{s: s, policy: &policy, maxTypes: mostTypes(&policy), state: rules.NewState(&model.Snapshot{}), views: []*rules.View{v}, rooms: []rules.Headroom{v.Headroom()}}
	var out []model.Launch
	for k := range min(n, mostStatic) {
		m := &machine{zones: allTrue(len(v.Zones)), capacity: allTrue(len(v.Capacities)), open: bearing(v), relax: v.BestEffort}
		if !p.complete(m) {
			break
		}
		p.rooms[0] = p.rooms[0].Minus(m.largest)
		l := p.launchOf(m, nil)
		sum := sha256.Sum256([]byte(l.ID + " " + identity + strconv.FormatInt(k, 10)))
		l.ID = hex.EncodeToString(sum[:16])
		out = append(out, l)
	}
	return out
}

// bearing are the pool's types on which its daemons fit.
func bearing(v *rules.View) rules.Bits {
	out := rules.NewBits(len(v.Net))
	for t := range v.Net {
		if v.Eligible.Has(t) && v.Overhead[t].Fits(v.Pool.Types[t].Allocatable) {
			out.Set(t)
		}
	}
	return out
}

// addLaunches adds launches without pods to a plan.
func addLaunches(plan *model.Plan, policy model.Policy, launches []model.Launch) {
	if len(launches) == 0 {
		return
	}
	var counts model.Price
	for i := range launches {
		c := &launches[i].Chosen
		counts += policy.Effective(c.Type, &model.Offering{CapacityType: c.CapacityType, Price: c.Price})
	}
	if len(plan.Launches) == 0 || plan.LowerBound > 0 { // else the bound is not known
		plan.LowerBound = min(plan.LowerBound, math.MaxInt64-counts) + counts
	}
	plan.EffectivePrice += counts
	plan.Launches = append(plan.Launches, launches...)
	slices.SortStableFunc(plan.Launches, func(a, b model.Launch) int { return cmp.Compare(a.ID, b.ID) })
}
