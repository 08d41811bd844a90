package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// snapshot is the cluster as a controller would see it. As long as nothing changes it is the same one; the next one has its Nodes.
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
		Nodes:      r.show(),
	}
	for _, id := range r.waiting {
		s.Pending = append(s.Pending, r.modelPod(&r.pods[id]))
	}
	for i := range r.slots {
		if r.slots[i].takes || !r.machines[i].going() {
			continue
		}
		for _, id := range r.machines[i].pods { // which have to leave: they are among those that wait
			p := r.modelPod(&r.pods[id])
			p.From = s.Nodes[i].Name
			s.Pending = append(s.Pending, p)
		}
	}
	slices.SortStableFunc(s.Pending, func(a, b model.Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	s.Ended, s.Running = r.endedLately(), r.running
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
