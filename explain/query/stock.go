package query

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// maxByType is how often single types are assumed sold out; after that all of the pool's are.
const maxByType = 4

// SoldOut is OfPod for a cluster whose cloud has no capacity for the nodes that could be launched for the pod: why it
// gets nothing then, and which change would still help. It is for callers that know that the cloud has no capacity,
// but not of what exactly.
func SoldOut(s *model.Snapshot, policy model.Policy, key model.PodKey) (Pod, bool) {
	for round := 0; ; round++ {
		p, waits := OfPod(s, policy, key)
		if !waits || p.Launch == nil {
			return p, waits
		}
		s = withoutStock(s, p.Launch, round >= maxByType)
	}
}

// withoutStock returns the cluster without the offerings that the launch could use; with whole, without any of its
// pool.
func withoutStock(s *model.Snapshot, l *model.Launch, whole bool) *model.Snapshot {
	out := *s
	out.Pools = slices.Clone(s.Pools)
	for i := range out.Pools {
		p := &out.Pools[i]
		if p.Name != l.Pool {
			continue
		}
		p.Types = slices.Clone(p.Types)
		for t := range p.Types {
			it := &p.Types[t]
			if !whole && it.Name != l.Chosen.Type && !slices.Contains(l.Types, it.Name) {
				continue
			}
			it.Offerings = slices.Clone(it.Offerings)
			for o := range it.Offerings {
				it.Offerings[o].Available = false
			}
		}
	}
	return &out
}
