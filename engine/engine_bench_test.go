package engine_test

import (
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// 792 types × 3 zones × 2 capacity types, no nodes yet; measured on the project's 2-core box (Xeon, go1.26.8, quiet),
// 21 November 2026: 1pod 2.4 ms, 1000pods1shape 6.9 ms, 1000pods30shapes 62 ms, 1000pods300shapes 208 ms. With many
// shapes most of the time goes into the last per cent of cost: see engine/solve/internal/binpack.
func BenchmarkProvision(b *testing.B) {
	for _, c := range []struct {
		name         string
		pods, shapes int
	}{
		{"1pod", 1, 1},
		{"1000pods1shape", 1000, 1},
		{"1000pods30shapes", 1000, 30},
		{"1000pods300shapes", 1000, 300},
	} {
		s := gen.Large(c.pods, c.shapes)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := engine.Provision(s, model.Policy{})
				if len(p.Unplaced) > 0 {
					b.Fatalf("%d pods got nothing: %+v", len(p.Unplaced), p.Unplaced[0])
				}
			}
		})
	}
}
