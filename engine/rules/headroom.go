package rules

import (
	"math"

	"github.com/nodeless/nodeless/engine/model"
)

// Headroom is what a pool's limits still allow.
type Headroom struct {
	Left  model.Resources // meaningful only where Limits.Set
	Nodes int64
}

// Headroom returns what the pool may launch before anything is planned.
func (v *View) Headroom() Headroom {
	r := Headroom{Left: v.Pool.Limits.Max.Minus(v.Pool.Usage), Nodes: math.MaxInt64}
	if v.Pool.Limits.NodesSet {
		r.Nodes = v.Pool.Limits.Nodes - max(v.Pool.NodeCount, 0)
	}
	return r
}

// Allows reports whether one more node of this capacity stays within the limits.
func (r Headroom) Allows(l *model.Limits, capacity *model.Resources) bool {
	return r.Nodes > 0 && overLimit(&r, l, capacity) < 0
}

// overLimit returns the first limited resource for which the capacity exceeds the headroom, or -1. A resource used
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
