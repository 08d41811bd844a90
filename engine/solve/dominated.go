package solve

import "github.com/nodeless/nodeless/engine/solve/internal/binpack"

// isDominated reports whether one of the bins so far, none of which costs more, can hold everything that b can and
// charges no more to limits.
func (x *purchase) isDominated(b *binpack.Bin) bool {
	for i := range x.packing.Bins {
		if x.dominates(&x.packing.Bins[i], b) {
			return true
		}
	}
	return false
}

func (x *purchase) dominates(a, b *binpack.Bin) bool {
	if a.Pool != b.Pool || !a.Open.Covers(b.Open) {
		return false
	}
	for d := range x.packing.Dims {
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
