package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// state presents the simulated cluster to the driver, as controller/cluster presents a real one.
type state struct{ *run }

// Snapshot returns the cluster as it is now.
func (s state) Snapshot() *model.Snapshot { return s.snapshot() }

// Changed never delivers: the simulation itself determines when to decide.
func (state) Changed() <-chan struct{} { return nil }

func (state) Workloads() uint64 { return 0 }

// Nominate protects the nodes that a plan relies on for a while, and makes kube-scheduler reserve room for pods on
// their nominated nodes.
func (s state) Nominate(nodes map[string]bool, promised map[model.PodKey]string) {
	until := s.time(s.now + s.Decider.NominatedFor)
	for name := range nodes {
		if n := s.named(name); n != nil {
			n.NominatedUntil = until
			s.touch(n)
		}
	}
	if len(nodes) > 0 {
		s.changed()
	}
	if !s.Decider.Promise {
		return
	}
	var free []*node // nodes that lost a nomination
	for _, id := range s.waiting {
		p := &s.pods[id]
		if was := p.nominee; was != nil && promised[p.key] != was.Name {
			s.nominate(id, nil)
			free = append(free, was)
		}
	}
	for _, id := range s.waiting {
		s.nominate(id, s.named(promised[s.pods[id].key]))
	}
	for _, n := range free {
		s.fill(n)
	}
}

// snapshot returns the cluster as a controller would see it. It returns the same value until something changes. The
// next snapshot reuses its Nodes.
func (r *run) snapshot() *model.Snapshot {
	now := r.time(r.now)
	if r.snap != nil && r.snap.Now.Equal(now) {
		return r.snap
	}
	if r.market.restocked(r.now) {
		r.pool.Types = r.market.stocked(r.now)
	}
	r.snap = &model.Snapshot{
		Now: now, ResourceNames: model.WellKnownResources, Shapes: r.shapes, Daemons: r.daemons,
		Namespaces: []model.Namespace{{
			Name:   "default",
			Labels: []model.Label{{Key: "kubernetes.io/metadata.name", Value: "default"}},
		}},
		Nodes: r.show(), Pending: r.pending(), Expected: r.expected(), Pools: []model.Pool{r.currentPool()},
	}
	return r.snap
}

// pending returns the waiting pods and the pods on nodes being removed or interrupted, by Created and Name.
func (r *run) pending() []model.Pod {
	r.order = append(r.order[:0], r.waiting...)
	if r.leaving > 0 {
		for _, n := range r.nodes {
			if n.leaving() {
				r.order = append(r.order, n.pods...)
			}
		}
	}
	if len(r.order) == 0 {
		return nil
	}
	slices.SortFunc(r.order, func(a, b int32) int { // names are in the order of the trace
		return cmp.Or(cmp.Compare(r.pods[a].created, r.pods[b].created), cmp.Compare(a, b))
	})
	out := make([]model.Pod, len(r.order))
	for i, id := range r.order {
		p := &r.pods[id]
		out[i] = r.modelPod(p)
		if p.node != nil {
			out[i].From = p.node.Name
		}
	}
	return out
}

// expected returns the evicted pods whose successors have not been created yet, by Created and Name.
func (r *run) expected() []model.Pod {
	var out []model.Pod
	for _, id := range r.absent {
		out = append(out, r.modelPod(&r.pods[id]))
	}
	model.SortPending(out)
	return out
}

// currentPool returns the pool with its usage and the number of nodes that its budget allows to be removed now.
func (r *run) currentPool() model.Pool {
	p := r.pool
	allowed := max(int(math.Ceil(r.Budget*float64(len(r.nodes))))-r.leaving, 0)
	p.Disruption.AllowedEmpty, p.Disruption.AllowedDrifted, p.Disruption.AllowedUnderused = allowed, allowed, allowed
	p.Usage, p.NodeCount = r.usage, int64(len(r.nodes))
	return p
}
