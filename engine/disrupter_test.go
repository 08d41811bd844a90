package engine_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// A Disrupter's plans are those of Disrupt, whatever it remembers of earlier snapshots.
func TestADisrupterPlansAsDisruptDoes(t *testing.T) {
	x, commands := engine.NewDisrupter(), 0
	for round, leave := range []int{0, 3, 3} {
		for _, nodes := range []int{12, 30} {
			s := settled(nodes, leave)
			s.Now = s.Now.Add(time.Duration(round) * time.Minute)
			for after := (model.Cursor{}); ; {
				policy := model.Policy{MaxWhatIfs: 7, After: after}
				got, want := x.Disrupt(s, policy), engine.Disrupt(s, policy)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("round %d, %d nodes, after %v: %v, want %v", round, nodes, after, got, want)
				}
				commands += len(got.Commands)
				if after = got.After; after == (model.Cursor{}) {
					break
				}
			}
		}
	}
	if commands == 0 {
		t.Error("no plan had a command")
	}
}
