package rules_test

import (
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/lab/gen"
)

// The screen passes every pool that could launch a node for a shape, and stops most of the others.
func TestScreenKeepsLaunchablePools(t *testing.T) {
	could, stopped, couldNot := 0, 0, 0
	for seed := range uint64(400) {
		s := gen.Random(seed)
		var views []*rules.View
		var rooms []rules.Headroom
		for i := range s.Pools {
			v := rules.NewView(&s.Pools[i], s.Daemons)
			views, rooms = append(views, v), append(rooms, v.Headroom())
		}
		screen := rules.NewScreen(views, rooms)
		for i := range s.Shapes {
			shape := s.Shapes[i]
			shape.Requests = shape.Requests.NonNegative()
			open := screen.Views(shape.Requests, shape.Required, shape.AnyOf, shape.Tolerations)
			for k, v := range views {
				switch verdict := v.Verdict(&shape, rooms[k], s.ResourceNames); {
				case verdict.Rule == model.RuleSteps || verdict.Rule == model.RuleMinValues:
					could++
					if !open.Has(k) {
						t.Fatalf("seed %d: pool %s could launch a node for %s, and the screen says no", seed, v.Pool.Name, shape.Key)
					}
				case open.Has(k):
					couldNot++
				default:
					stopped++
				}
			}
		}
	}
	if could == 0 || stopped < 9*couldNot {
		t.Errorf("%d times a pool could launch a node; of the others %d were stopped, and %d were not", could, stopped,
			couldNot)
	}
}
