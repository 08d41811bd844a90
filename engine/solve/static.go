package solve

import (
	"math"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// withoutStaticPools returns the snapshot in which static pools are not ready: pods may use their nodes but cause no
// launches there.
func withoutStaticPools(s *model.Snapshot) *model.Snapshot {
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

// missingReplicas returns the launches that bring every static pool to its replicas, within its limits and the
// addresses that the planned launches leave in the subnets. Nodes that are being deleted no longer count as replicas,
// but count in limits.nodes as long as they exist.
func missingReplicas(s *model.Snapshot, policy model.Policy, planned []model.Launch) []model.Launch {
	var out []model.Launch
	left := *s
	left.Subnets = AfterLaunches(s, planned)
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
		launches := StaticLaunches(&left, policy, p.Name, p.Replicas-running, identity)
		left.Subnets = AfterLaunches(&left, launches)
		out = append(out, launches...)
	}
	return out
}

// maxStatic is the maximum number of nodes that one plan launches in a static pool; the next plan continues.
const maxStatic = 1000

// StaticLaunches returns up to n launches without pods in the pool, within its limits: the cheapest offering that it
// allows and on which its daemons fit. identity distinguishes them from other launches of the same pool: equal
// identities give equal IDs, so a plan that is made again from the same nodes launches the same ones.
func StaticLaunches(s *model.Snapshot, policy model.Policy, pool string, n int64, identity string) []model.Launch {
	i := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == pool })
	if i < 0 || n <= 0 || s.Pools[i].NotReady != "" {
		return nil
	}
	v := rules.NewView(&s.Pools[i], s.Daemons)
	v.ApplyPolicy(&policy)
	v.ApplySubnets(s.Subnets)
	m := newMarket(&model.Snapshot{Pools: s.Pools[i : i+1], Subnets: s.Subnets}, &policy, []*rules.View{v})
	b := &nodeBuilder{market: m, state: rules.NewState(&model.Snapshot{}), classes: newClassTable()}
	bearing := rules.NewBits(len(v.Net))
	for t := range v.Eligible.All() {
		if v.Overhead[t].Fits(v.Pool.Types[t].Allocatable) {
			bearing.Set(t)
		}
	}
	var out []model.Launch
	for k := range min(n, maxStatic) {
		node := newPlannedNode(0, v, slices.Clone(bearing), v.BestEffort)
		if !b.complete(node) {
			break
		}
		m.charge(node)
		l := b.launchOf(node, []model.PodKey{})
		l.ID = model.Digest([]byte(l.ID + " " + identity + strconv.FormatInt(k, 10)))
		out = append(out, l)
	}
	return out
}

// addLaunches adds launches without pods to a plan.
func addLaunches(plan *model.Plan, policy model.Policy, launches []model.Launch) {
	if len(launches) == 0 {
		return
	}
	var price model.Price
	for i := range launches {
		price += policy.Effective(launches[i].Chosen.Price)
	}
	if len(plan.Launches) == 0 || plan.LowerBound > 0 { // else the bound is not known
		plan.LowerBound = min(plan.LowerBound, math.MaxInt64-price) + price
	}
	plan.EffectivePrice += price
	plan.Launches = append(plan.Launches, launches...)
	sortLaunches(plan.Launches)
}
