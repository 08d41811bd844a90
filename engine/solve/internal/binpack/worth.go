package binpack

import "math"

// Worth is what each item is worth at the shadow prices of the resource LP, lowered until no bin can hold items of more worth
// than its price: whichever of the items are bought, their bins cost at least what they are worth together. It is 0 for items
// that no bin can hold.
func Worth(p *Problem) []float64 {
	p = p.sane()
	out := make([]float64, len(p.Items))
	left := p.holdable(p.Items)
	y, bound := p.pour(left)
	sum := 0.0
	for i := range p.Items {
		if left[i] > 0 {
			out[i] = y.of(&p.Items[i], p.Dims)
			sum += float64(float64(left[i]) * out[i])
		}
	}
	scale := 0.0
	if sum > 0 && !math.IsInf(sum, 0) && !math.IsNaN(bound) {
		scale = max(bound, 0) / sum
	}
	for i := range out {
		out[i] *= scale
	}
	return out
}
