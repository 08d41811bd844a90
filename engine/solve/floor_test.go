package solve

import (
	"math/rand/v2"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// ladderOf returns types of 1 to 32 cores with 2, 4 and 8 GiB for each core, priced nearly by size, on each of which
// a daemon takes a part.
func ladderOf(random *rand.Rand) []*rules.View {
	var types []model.InstanceType
	for _, cores := range []int64{1, 2, 4, 8, 16, 32} {
		for _, gib := range []int64{2, 4, 8} {
			all := model.Resources{model.CPU: cores*1000 - 80, model.Memory: cores*gib<<30 - 700<<20, model.Pods: 8 + cores*7}
			price := model.Price(cores*(30_000+4_000*gib) + random.Int64N(3000))
			types = append(types, model.InstanceType{
				Name: string(rune('a' + len(types))), Allocatable: all, Capacity: all,
				Offerings: []model.Offering{
					{Zone: "a", CapacityType: model.OnDemand, Price: price, Available: random.IntN(9) > 0},
				},
			})
		}
	}
	requests := model.Resources{model.CPU: 280, model.Memory: 320 << 20, model.Pods: 3}
	agent := model.Daemon{Shape: model.Shape{Requests: requests}}
	return []*rules.View{rules.NewView(&model.Pool{Name: "general", Types: types}, []model.Daemon{agent})}
}

// Whichever nodes are chosen, and whatever they hold together, the floor never says that the same load costs more.
// And it usually recognizes that 95 % of the price of a node that is nine tenths full cannot buy the same load.
func TestPriceFloorIsALowerBound(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	known, tries := 0, 0
	for range 3000 {
		f := newPriceFloor(ladderOf(random))
		cost, holds := model.Price(0), model.Resources{}
		nodes := 1 + random.IntN(4)
		full := 0.9
		for range nodes {
			o := f.offers[random.IntN(len(f.offers))]
			if o.net[model.CPU] <= 0 {
				continue
			}
			cost += o.price
			if nodes > 1 {
				full = random.Float64()
			}
			for _, r := range []int{model.CPU, model.Memory, model.Pods} {
				holds[r] += int64(full * float64(o.net[r]))
			}
		}
		if cost == 0 {
			continue
		}
		if f.reaches(cost+1, &holds) {
			t.Fatalf("%v are held by %d nodes for %d, and the floor says that nothing does for less than %d",
				holds, nodes, cost, cost+1)
		}
		if nodes == 1 {
			tries++
			if f.reaches(cost*95/100, &holds) {
				known++
			}
		}
	}
	if tries < 500 || known*2 < tries {
		t.Errorf("of %d prices that are too low it knew %d", tries, known)
	}
}

// A resource that no offering has cannot be bought at any price.
func TestPriceFloorWithoutAnOffering(t *testing.T) {
	f := newPriceFloor(ladderOf(rand.New(rand.NewPCG(1, 1))))
	gpus := model.Resources{model.NvidiaGPU: 1}
	if f.cheapestHolding(&gpus) >= 0 {
		t.Error("no type has a GPU")
	}
	if !f.reaches(1<<39, &gpus) {
		t.Error("a GPU cannot be had at any price")
	}
	empty := newPriceFloor(nil)
	if !empty.reaches(1, &model.Resources{model.CPU: 1}) || empty.cheapestHolding(&gpus) >= 0 {
		t.Error("where nothing is offered nothing can be had")
	}
}
