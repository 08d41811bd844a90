package engine_test

import (
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// The lower bound says what a region's catalogue allows at best; the search must come near it.
func TestPlansAreNearTheirBound(t *testing.T) {
	for _, c := range []struct {
		pods, shapes int
		atMost       float64 // as a multiple of the lower bound
	}{{100, 1, 1.06}, {1000, 1, 1.03}, {1000, 30, 1.12}, {1000, 300, 1.08}} {
		s := gen.Large(c.pods, c.shapes)
		plan := engine.Provision(s, model.Policy{})
		var cost model.Price
		for _, l := range plan.Launches {
			cost += l.Chosen.Price
		}
		ratio := float64(cost) / float64(plan.LowerBound)
		t.Logf("%d pods of %d shapes: %d machines, $%.2f/h, %.3f of the lower bound", c.pods, c.shapes,
			len(plan.Launches), cost.Dollars(), ratio)
		if len(plan.Unplaced) > 0 || ratio > c.atMost {
			t.Errorf("%d pods of %d shapes: %d got nothing, cost is %.3f of the lower bound, want at most %.2f", c.pods,
				c.shapes, len(plan.Unplaced), ratio, c.atMost)
		}
	}
}
