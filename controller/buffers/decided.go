package buffers

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// answer counts what a plan does with the placeholders of a buffer.
type answer struct {
	existing int    // fit on a node that exists or is being launched
	launched int    // get a new node
	failed   int    // get none
	why      string // why the first of them gets none
}

func (a answer) total() int { return a.existing + a.launched + a.failed }

// Decided records a plan and the snapshot it was made from. A buffer keeps its previous answer unless the plan
// answers all of its placeholders.
func (c *Controller) Decided(s *model.Snapshot, p *model.Plan) {
	asked := map[types.NamespacedName]int{}
	owner := map[model.PodKey]types.NamespacedName{}
	for i := range s.Pending {
		if v := &s.Pending[i]; v.Virtual && strings.HasPrefix(v.Name, namePrefix) {
			key := ownerOf(v.PodKey)
			owner[v.PodKey] = key
			asked[key]++
		}
	}
	if len(asked) == 0 {
		return
	}
	found := tally(p, owner)
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range asked {
		if s, a := c.state[key], found[key]; a.total() == n && s.answer != a {
			s.answer = a
			c.state[key] = s
			c.queue.Add(key.String())
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
