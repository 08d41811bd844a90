package solve

import (
	"fmt"
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// unfair reports whether a limit left a pod without a machine while one went to a less important pod.
func (p *problem) unfair() bool {
	if p.known.short || len(p.plan.Launches) == 0 || len(p.groupsLeft()) == 0 {
		return false
	}
	priority := make(map[model.PodKey]int32, len(p.s.Pending))
	for i := range p.s.Pending {
		priority[p.s.Pending[i].PodKey] = p.s.Pending[i].Priority
	}
	least := int32(math.MaxInt32)
	for i := range p.plan.Launches {
		for _, k := range p.plan.Launches[i].Pods {
			least = min(least, priority[k])
		}
	}
	return slices.ContainsFunc(p.groupsLeft(), func(g *group) bool { return p.priority(g) > least && p.nearest(g) == model.RuleLimit })
}

// cutOff refuses pods that are not important enough for a machine. Placeholders stand for pods that are.
func (p *problem) cutOff() {
	if !p.policy.HasPriorityCutoff {
		return
	}
	for _, g := range p.groups {
		keep := g.pods[:0:0]
		for _, i := range g.pods {
			if pod := &p.s.Pending[i]; pod.Virtual || pod.Priority >= p.policy.PriorityCutoff {
				keep = append(keep, i)
				continue
			}
			p.refuseForPriority(i)
		}
		g.pods = keep
	}
}

func (p *problem) refuseForPriority(pod int) {
	p.refuse(pod, model.Reason{Rule: model.RulePriority, Detail: fmt.Sprint(p.policy.PriorityCutoff)})
}
