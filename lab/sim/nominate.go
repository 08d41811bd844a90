package sim

import "github.com/nodeless/nodeless/engine/model"

// promise has kube-scheduler keep room for the pods that wait where the plan places them; on are the machines of its
// launches, nil for those that could not be had.
func (r *run) promise(plan *model.Plan, on []*machine) {
	ids := make(map[model.PodKey]int32, len(r.waiting))
	for _, id := range r.waiting {
		ids[r.pods[id].key] = id
	}
	for i := range plan.Launches {
		for _, key := range plan.Launches[i].Pods {
			if id, ok := ids[key]; ok {
				r.hold(id, on[i])
			}
		}
	}
	for i := range plan.Placements {
		if id, ok := ids[plan.Placements[i].Pod]; ok {
			r.hold(id, r.byName(plan.Placements[i].Node))
		}
	}
	for i := range plan.Placements {
		if m := r.byName(plan.Placements[i].Node); m != nil {
			r.fill(m) // where a nomination is gone there may be room
		}
	}
}

// hold keeps room for a pod on a machine, and no longer where it was kept before; nil keeps none. A nomination to a
// machine that is gone keeps nothing.
func (r *run) hold(id int32, m *machine) {
	p := &r.pods[id]
	if p.nominee == m {
		return
	}
	ask := &r.asks[p.shape]
	if p.nominee != nil && r.exists(p.nominee) {
		held := &r.slots[r.index(p.nominee)].held
		for d := range ask {
			held[d] -= ask[d]
		}
	}
	if p.nominee = m; m != nil {
		held := &r.slots[r.index(m)].held
		for d := range ask {
			held[d] += ask[d]
		}
	}
}
