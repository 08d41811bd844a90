package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// snapshot is the cluster as a controller would see it. As long as nothing changes it is the same one.
func (r *run) snapshot() *model.Snapshot {
	now := r.time(r.now)
	if r.snap != nil && r.snap.Now.Equal(now) {
		return r.snap
	}
	if r.restocked() {
		r.stock()
	}
	s := &model.Snapshot{
		Now: now, ResourceNames: model.WellKnownResources, Shapes: r.shapes, Daemons: r.daemons,
		Namespaces: []model.Namespace{{Name: "default", Labels: []model.Label{{Key: "kubernetes.io/metadata.name", Value: "default"}}}},
		Nodes:      make([]model.Node, len(r.machines)),
	}
	for _, id := range r.waiting {
		s.Pending = append(s.Pending, r.modelPod(&r.pods[id]))
	}
	for i, m := range r.machines {
		s.Nodes[i] = m.node
		if !m.going() {
			continue
		}
		// Its pods have to leave: they are among those that wait.
		n := &s.Nodes[i]
		n.Pods, n.Used = nil, m.daemons
		for _, id := range m.pods {
			p := r.modelPod(&r.pods[id])
			p.From = n.Name
			s.Pending = append(s.Pending, p)
		}
	}
	slices.SortStableFunc(s.Pending, func(a, b model.Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	s.Ended = r.endedLately()
	s.Pools = []model.Pool{r.poolNow()}
	r.snap = s
	return s
}

// endedLately counts the pods that ended in the last model.RecentlyEnded.
func (r *run) endedLately() int {
	from, _ := slices.BinarySearch(r.ends, r.now-model.RecentlyEnded)
	r.ends = r.ends[from:]
	return len(r.ends)
}

// poolNow is the pool with what its budget lets go now.
func (r *run) poolNow() model.Pool {
	p := r.pool
	going := 0
	for _, m := range r.machines {
		if m.node.Deleting {
			going++
		}
	}
	allowed := max(int(math.Ceil(r.Budget*float64(len(r.machines))))-going, 0)
	p.Disruption.AllowedEmpty, p.Disruption.AllowedDrifted, p.Disruption.AllowedUnderused = allowed, allowed, allowed
	p.Usage, p.NodeCount = r.usage, int64(len(r.machines))
	return p
}
