package buffers

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// answer is what a plan does with the placeholders of a buffer.
type answer struct {
	existing int    // have their place on a machine that is there or on its way
	launched int    // get a new machine
	failed   int    // get none
	why      string // of the first that gets none
}

func (a answer) total() int { return a.existing + a.launched + a.failed }

// Decided takes note of a plan and the snapshot it was made of. A buffer of which the plan does not answer all placeholders
// keeps the answer it has.
func (k *Keeper) Decided(s *model.Snapshot, p *model.Plan) {
	asked := map[types.NamespacedName]int{}
	owner := map[model.PodKey]types.NamespacedName{}
	for i := range s.Pending {
		if v := &s.Pending[i]; v.Virtual {
			key := ownerOf(v.PodKey)
			owner[v.PodKey] = key
			asked[key]++
		}
	}
	if len(asked) == 0 {
		return
	}
	found := tally(p, owner)
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, n := range asked {
		if a := found[key]; a.total() == n && k.answers[key] != a {
			k.answers[key] = a
			k.queue.Add(key.String())
		}
	}
}

// tally counts the plan's answers by buffer.
func tally(p *model.Plan, owner map[model.PodKey]types.NamespacedName) map[types.NamespacedName]answer {
	out := map[types.NamespacedName]answer{}
	note := func(pod model.PodKey, add func(*answer)) {
		if key, ok := owner[pod]; ok {
			a := out[key]
			add(&a)
			out[key] = a
		}
	}
	for i := range p.Placements {
		note(p.Placements[i].Pod, func(a *answer) { a.existing++ })
	}
	for i := range p.Launches {
		for _, pod := range p.Launches[i].Pods {
			note(pod, func(a *answer) { a.launched++ })
		}
	}
	for i := range p.Unplaced {
		note(p.Unplaced[i].Pod, func(a *answer) {
			if a.failed++; a.failed == 1 {
				a.why = reason.Pod(p.Unplaced[i].Reason)
			}
		})
	}
	return out
}
