package solve

import (
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// beaten reports whether a bin on the list, none of which is dearer, can do all that b can.
func (s *shop) beaten(b *binpack.Bin) bool {
	for i := range s.cover.Bins {
		if s.beats(&s.cover.Bins[i], b) {
			return true
		}
	}
	return false
}

// beats reports whether a, which is no dearer, can do all that b can and takes no more of what is limited.
func (s *shop) beats(a, b *binpack.Bin) bool {
	if a.Pool != b.Pool || !a.Open.Covers(b.Open) {
		return false
	}
	for d := range s.cover.Dims {
		if a.Size[d] < b.Size[d] {
			return false
		}
	}
	for i := range a.Charge {
		if a.Charge[i] > b.Charge[i] {
			return false
		}
	}
	return true
}

func (s *shop) limited(v *rules.View) []int {
	var out []int
	for r, set := range v.Pool.Limits.Set {
		if set {
			out = append(out, r)
		}
	}
	return out
}

// flexible reports whether the types that hold whatever this one holds are as many as the pool's minValues want.
func (s *shop) flexible(v *rules.View, typ int) bool {
	if len(v.MinValues) == 0 {
		return true
	}
	var as []int
	for t := range v.Net {
		if v.Eligible.Has(t) && s.holdsMore(v, t, typ) {
			as = append(as, t)
		}
	}
	_, _, short := v.ShortOfValues(as, allTrue(len(v.Zones)), allTrue(len(v.Capacities)))
	return !short
}

// optionFor is the option by which a class may use the bin, or -1.
func (s *shop) optionFor(class int, b *binOf) int {
	if s.all {
		return s.problem.classes[class].optionIn(b.view, b.typ, &b.offer)
	}
	return s.problem.classes[class].optionFor(b.view, b.typ, &b.offer)
}

func (s *shop) holdsMore(v *rules.View, a, b int) bool {
	for _, r := range s.active {
		if v.Net[a][r] < v.Net[b][r] {
			return false
		}
	}
	return true
}
