package fill

import (
	"fmt"
	"maps"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// busy is a pool of machines at equal prices, of which so much is used, in a cluster in which as many pods have ended as run.
func busy(cores ...int64) *model.Snapshot {
	s := &model.Snapshot{Running: 10, Ended: 10, Pools: []model.Pool{{Name: "jobs"}}}
	for i, c := range cores {
		name := fmt.Sprint("m", i)
		s.Nodes = append(s.Nodes, model.Node{
			Name: name, Claim: name, Pool: "jobs", Price: 1e6, State: model.Initialized,
			Allocatable: model.Resources{model.CPU: 8000, model.Memory: 32 << 30}, Used: model.Resources{model.CPU: 1000 * c},
		})
	}
	return s
}

func expect(t *testing.T, s *model.Snapshot, now, want map[string]int) {
	t.Helper()
	if got := Order(s, now); !maps.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
}

func TestThoseThatAreWorthMostAreFilledFirst(t *testing.T) {
	s := busy(1, 7, 3, 5)
	expect(t, s, nil, map[string]int{"m3": 1, "m2": 2, "m0": 3})
	s.Nodes[0].Price *= 8 // a large one, though less of it is used
	expect(t, s, nil, map[string]int{"m1": 1, "m3": 2, "m2": 3})
	s.Nodes[2].Used[model.Memory] = 32 << 30 // full, by memory
	expect(t, s, nil, map[string]int{"m0": 1, "m1": 2, "m3": 3})
}

func TestWherePodsStayNothingHasATurn(t *testing.T) {
	s := busy(1, 7, 3, 5)
	turns := Order(s, nil)
	s.Ended = 9
	expect(t, s, nil, nil)
	expect(t, s, turns, turns) // begun, it does not end at once
	s.Ended = 4
	expect(t, s, turns, nil)
}

func TestWhatCannotGoOrTakesNoPodsHasNoTurn(t *testing.T) {
	s := busy(1, 2, 3, 4, 5, 6, 7)
	s.Nodes[0].Deleting = true
	s.Nodes[1].Cordoned = true
	s.Nodes[2].State = model.Registered
	s.Nodes[3].Claim = ""
	s.Nodes[4].Pool = "of somebody else"
	expect(t, s, nil, map[string]int{"m5": 2})
	s.Pools[0].Static = true
	expect(t, s, nil, nil)
	s.Pools[0].Static, s.Pools[0].Disruption.Never = false, true
	expect(t, s, nil, nil)
}

func TestAMachineWhosePriceIsNotKnownKeepsItsTurn(t *testing.T) {
	s := busy(1, 7, 3, 5)
	turns := map[string]int{"m0": 2, "m1": 3}
	for i := range s.Nodes {
		s.Nodes[i].Price = 0
	}
	expect(t, s, turns, turns)
	s.Nodes[1].Price = 1e6
	expect(t, s, turns, map[string]int{"m0": 2})
}

func TestWhatSomebodyElsePrefersGoesFirst(t *testing.T) {
	s := busy(1, 7, 3, 5)
	turns := Order(s, nil)
	s.Nodes = append(s.Nodes, model.Node{Name: "theirs", Taints: []model.Taint{{Key: "gpu", Effect: model.NoSchedule}}})
	expect(t, s, nil, turns)
	s.Nodes[4].Taints[0].Effect = model.PreferNoSchedule
	expect(t, s, turns, nil)
}

func TestAMachineThatIsAlmostInItsTurnKeepsIt(t *testing.T) {
	s := busy(17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)
	turns := map[string]int{}
	for i := 4; i < 16; i++ {
		turns[fmt.Sprint("m", i)] = i / 4
	}
	s.Nodes[3].Used, s.Nodes[4].Used = s.Nodes[4].Used, s.Nodes[3].Used // they change places
	expect(t, s, turns, turns)
	s.Nodes[3].Used = model.Resources{}
	if again := Order(s, turns); again["m3"] != Last {
		t.Errorf("an empty machine has turn %d", again["m3"])
	}
}
