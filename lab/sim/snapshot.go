package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// snapshot is the cluster as a controller would see it. As long as nothing changes it is the same one; the next one
// has its Nodes.
func (r *run) snapshot() *model.Snapshot {
	now := r.time(r.now)
	if r.snap != nil && r.snap.Now.Equal(now) {
		return r.snap
	}
	if r.market.restocked(r.now) {
		r.pool.Types = r.market.stocked(r.now)
	}
	s := &model.Snapshot{
		Now: now, ResourceNames: model.WellKnownResources, Shapes: r.shapes, Daemons: r.daemons,
		Namespaces: []model.Namespace{{
			Name:   "default",
			Labels: []model.Label{{Key: "kubernetes.io/metadata.name", Value: "default"}},
		}},
		Nodes: r.show(),
	}
	s.Pending, s.Expected = r.pending(), r.expected()
	s.Pools = []model.Pool{r.poolNow()}
	r.snap = s
	return s
}

// pending are the pods that wait and those that have to leave their machines, by Created and Name.
func (r *run) pending() []model.Pod {
	r.order = append(r.order[:0], r.waiting...)
	for i := range r.slots {
		if !r.slots[i].takes && r.machines[i].going() {
			r.order = append(r.order, r.machines[i].pods...)
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
		if p.machine != nil {
			out[i].From = p.machine.node.Name
		}
	}
	return out
}

// expected are the pods that were evicted and are not there again, by Created and Name.
func (r *run) expected() []model.Pod {
	var out []model.Pod
	for _, id := range r.absent {
		out = append(out, r.modelPod(&r.pods[id]))
	}
	model.SortPending(out)
	return out
}

// poolNow is the pool with what its budget lets go now.
func (r *run) poolNow() model.Pool {
	p := r.pool
	going := 0
	for i := range r.slots {
		if !r.slots[i].takes && r.machines[i].node.Deleting {
			going++
		}
	}
	allowed := max(int(math.Ceil(r.Budget*float64(len(r.machines))))-going, 0)
	p.Disruption.AllowedEmpty, p.Disruption.AllowedDrifted, p.Disruption.AllowedUnderused = allowed, allowed, allowed
	p.Usage, p.NodeCount = r.usage, int64(len(r.machines))
	return p
}
