package gen

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Disruptive returns a small cluster with causes for every disruption and obstacles to every disruption. It resembles
// Random's cluster (for every third seed Constrained's), but has fewer pending pods, some of which must move off a
// node or are placeholders, and more nodes with a price and pods, some of them drifted; some pools are static. Equal
// seeds give equal snapshots.
func Disruptive(seed uint64) *model.Snapshot {
	s := Random(seed)
	if seed%3 == 0 {
		s = Constrained(seed)
	}
	r := source{rand.New(rand.NewPCG(seed, 0x64697372757074))}
	s.Pending = s.Pending[:min(len(s.Pending), r.IntN(8))]
	for i := range s.Pending {
		s.Pending[i].Virtual = r.chance(25)
	}
	for i := range s.Pools {
		r.disruptive(&s.Pools[i])
	}
	s.Nodes = s.Nodes[:min(len(s.Nodes), r.IntN(3))]
	for i := range r.IntN(10) {
		if n, ok := r.existingNode(s, fmt.Sprintf("machine-%d", i)); ok {
			s.Nodes = append(s.Nodes, n)
		}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Deleting && n.State != model.InFlight && r.chance(50) {
			p := r.pod(s, "leaves-"+n.Name)
			p.From = n.Name
			s.Pending = append(s.Pending, p)
		}
	}
	annotate(s, seed)
	return model.Canonical(s)
}

// DisruptionPolicy returns a policy for a cluster of Disruptive; half of the seeds give the default.
func DisruptionPolicy(seed uint64) model.Policy {
	r := source{rand.New(rand.NewPCG(seed, 0x706f6c696379))}
	if r.chance(50) {
		return model.Policy{}
	}
	p := model.Policy{SpotToSpot: r.chance(50), MaxWhatIfs: r.IntN(5)}
	if r.chance(20) {
		p.After.Underutilized = fmt.Sprintf("machine-%d", r.IntN(9))
	}
	if r.chance(20) {
		p.NodeFee = model.Price(r.IntN(60_000))
	}
	return p
}

// disruptive gives a pool budgets, a disruption policy, and sometimes replicas.
func (r source) disruptive(p *model.Pool) {
	p.Disruption = model.DisruptionPolicy{
		ConsolidateAfter: time.Duration(r.IntN(30)) * time.Minute, Never: r.chance(8), WhenEmptyOnly: r.chance(8),
		Balanced:     r.chance(15),
		AllowedEmpty: r.IntN(4), AllowedDrifted: r.IntN(5), AllowedUnderused: r.IntN(6),
	}
	if r.chance(20) {
		p.Static, p.Replicas = true, int64(r.IntN(5))
	}
	if p.Limits.NodesSet {
		p.Limits.Nodes += 6
	}
}

// existingNode returns an initialized node of a type and an offering of some pool, or false if there is none.
func (r source) existingNode(s *model.Snapshot, name string) (model.Node, bool) {
	n := model.Node{
		Name: name, State: model.Initialized, Created: epoch.Add(-time.Duration(r.IntN(3600)) * time.Second),
		Deleting:     r.chance(5),
		DoNotDisrupt: r.chance(5), Deadline: r.chance(20),
	}
	if len(s.Pools) == 0 {
		return n, false
	}
	p := &s.Pools[r.IntN(len(s.Pools))]
	if len(p.Types) == 0 {
		return n, false
	}
	t := pick(r, p.Types...)
	if len(t.Offerings) == 0 {
		return n, false
	}
	o := pick(r, t.Offerings...)
	n.Pool, n.Claim, n.Type, n.Zone, n.CapacityType, n.Price = p.Name, "claim-"+name, t.Name, o.Zone, o.CapacityType,
		min(max(o.Price, 0), 1<<40)
	n.Capacity, n.Allocatable, n.AttachLimits, n.Taints = t.Capacity, t.Allocatable, t.AttachLimits, p.Taints
	n.Labels = t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, n.Zone),
		model.OneOf(model.LabelCapacityType, n.CapacityType),
		model.OneOf(model.LabelPool, n.Pool)))
	n.Initialized = epoch.Add(time.Duration(r.IntN(3600)) * time.Second)
	if r.chance(50) {
		n.Expires = n.Created.Add(time.Duration(2+r.IntN(48)) * time.Hour)
	}
	if r.chance(40) {
		n.Drifted, n.DriftedSince = "NodePoolDrifted", n.Initialized
	}
	r.bind(s, &n)
	return n, true
}

// bind adds pods to the node if they fit.
func (r source) bind(s *model.Snapshot, n *model.Node) {
	for i := range r.IntN(5) {
		p := model.BoundPod{
			Pod: r.pod(s, fmt.Sprintf("bound-%s-%d", n.Name, i)), Daemon: r.chance(10), Terminal: r.chance(5),
			Terminating:  r.chance(5),
			DoNotDisrupt: r.chance(4), EvictionCost: pick[int32](r, 1000, 1000, 1000, -500, 3000),
		}
		if r.chance(5) {
			p.EvictionBlocked = "PodDisruptionBudget shop/web allows no eviction"
		}
		p.Returns = p.Terminating && r.chance(50)
		requests := s.Shapes[p.Shape].Requests.NonNegative()
		if p.Terminal || !requests.Fits(n.Free()) {
			continue
		}
		n.Used = n.Used.Plus(requests)
		n.Pods = append(n.Pods, p)
	}
}
