package engine_test

import (
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/gen"
	"github.com/nodeless/nodeless/engine/model"
)

// 792 types × 3 zones × 2 capacity types, no machines yet; measured on the project's 2-core box (Xeon, go1.26.8, one
// core, other builds running), 21 November 2026: 1pod 1.3 ms, 1000pods1shape 3.7 ms, 1000pods30shapes 11.3 ms,
// 1000pods300shapes 13.2 ms. The aims are 5 ms for one pod and 50 ms for a thousand.
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
