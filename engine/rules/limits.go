package rules

import "github.com/nodeless/nodeless/engine/model"

// Allows reports whether one more node of this capacity stays within the limits.
func (r Headroom) Allows(l *model.Limits, capacity *model.Resources) bool {
	return r.Nodes > 0 && overLimit(&r, l, capacity) < 0
}

// overLimit returns the first limited resource of which the capacity exceeds the headroom, or -1. A resource used
// beyond its limit excludes only nodes that have it.
func overLimit(r *Headroom, l *model.Limits, capacity *model.Resources) int {
	for i, set := range l.Set {
		if set && capacity[i] > 0 && capacity[i] > r.Left[i] {
			return i
		}
	}
	return -1
}

// Minus returns the headroom left by a launch that may become as large as this.
func (r Headroom) Minus(largest model.Resources) Headroom {
	r.Left = r.Left.Minus(largest.NonNegative())
	r.Nodes--
	return r
}

// Plus returns the headroom without such a launch.
func (r Headroom) Plus(largest model.Resources) Headroom {
	r.Left = r.Left.Plus(largest.NonNegative())
	r.Nodes++
	return r
}

// Limited reports whether the limits name any resource, so that larger alternatives cost headroom.
func Limited(l *model.Limits) bool { return l.Set != [model.MaxResources]bool{} }

// NoLarger reports whether capacity uses no more of the limited resources than chosen.
func NoLarger(l *model.Limits, capacity, chosen *model.Resources) bool {
	for i, set := range l.Set {
		if set && capacity[i] > chosen[i] {
			return false
		}
	}
	return true
}
