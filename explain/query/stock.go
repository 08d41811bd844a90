package query

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// maxByType is how many rounds assume that single types are sold out; later rounds assume it of all the pool's types.
const maxByType = 4

// SoldOut is OfPod for a cluster whose cloud has no capacity for the nodes that could be launched for the pod. It
// returns why the pod then gets nothing, and which change would still help. It serves callers that know that capacity
// is lacking, but not for which offerings.
func SoldOut(s *model.Snapshot, policy model.Policy, key model.PodKey) (Pod, bool) {
	for round := 0; ; round++ {
		p, waits := OfPod(s, policy, key)
		// Each round after maxByType takes a whole pool.
		if !waits || p.Launch == nil || round >= maxByType+len(s.Pools) {
			return p, waits
		}
		s = withoutStock(s, p.Launch, round >= maxByType)
	}
}

// withoutStock returns the snapshot without the offerings and capacity reservations that the launch could use or, if
// whole is set, without any of its pool's.
func withoutStock(s *model.Snapshot, l *model.Launch, whole bool) *model.Snapshot {
	out := *s
	out.Pools = slices.Clone(s.Pools)
	for i := range out.Pools {
		p := &out.Pools[i]
		if p.Name != l.Pool {
			continue
		}
		gone := func(name string) bool { return whole || name == l.Chosen.Type || slices.Contains(l.Types, name) }
		p.Reservations = slices.DeleteFunc(slices.Clone(p.Reservations),
			func(r model.Reservation) bool { return gone(r.Type) })
		p.Types = slices.Clone(p.Types)
		for t := range p.Types {
			it := &p.Types[t]
			if !gone(it.Name) {
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
