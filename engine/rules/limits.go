package rules

import "github.com/nodeless/nodeless/engine/model"

// Allows reports whether one more machine of this capacity keeps the limits.
func (r Headroom) Allows(l *model.Limits, capacity *model.Resources) bool {
	return r.Nodes > 0 && overLimit(&r, l, capacity) < 0
}

// overLimit is the first limited resource of which the capacity is more than is left, or -1. A resource that is used up
// beyond its limit stops only machines that have it.
func overLimit(r *Headroom, l *model.Limits, capacity *model.Resources) int {
	for i, set := range l.Set {
		if set && capacity[i] > 0 && capacity[i] > r.Left[i] {
			return i
		}
	}
	return -1
}

// Less is what is left after one machine that may be as large as this.
func (r Headroom) Minus(largest model.Resources) Headroom {
	r.Left = r.Left.Minus(largest.NonNegative())
	r.Nodes--
	return r
}

// Plus is what is left once such a machine is not launched after all.
func (r Headroom) Plus(largest model.Resources) Headroom {
	r.Left = r.Left.Plus(largest.NonNegative())
	r.Nodes++
	return r
}

// Limited reports whether the limits name any resource, and so make a larger alternative cost room.
func Limited(l *model.Limits) bool { return l.Set != [model.MaxResources]bool{} }

// NoLarger reports whether capacity takes no more of the limited resources than chosen does.
func NoLarger(l *model.Limits, capacity, chosen *model.Resources) bool {
	for i, set := range l.Set {
		if set && capacity[i] > chosen[i] {
			return false
		}
	}
	return true
}
