package methods

import (
	"strconv"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// empty removes machines without pods but daemons and finished ones, once their pool's consolidateAfter is over.
func (r *run) empty(n *model.Node, p *model.Pool) (model.Method, model.Reason) {
	if count := occupants(n); count > 0 {
		return "", model.Reason{Rule: model.RuleNotEmpty, Detail: strconv.Itoa(count)}
	}
	if p.Disruption.Never {
		return "", model.Reason{Rule: model.RuleNever, Object: p.Name}
	}
	if left := r.untilConsolidation(n, p); left > 0 {
		return "", model.Reason{Rule: model.RuleTooYoung, Object: p.Name, Detail: left.String()}
	}
	if r.gone[p.Name] >= p.Disruption.AllowedEmpty {
		return "", model.Reason{Rule: model.RuleBudget, Object: p.Name, Detail: strconv.Itoa(max(p.Disruption.AllowedEmpty, 0))}
	}
	return model.Empty, model.Reason{}
}

// untilConsolidation is how long the machine must still be quiet. The time begins when it was ready or its last pod came
// or went, whichever is later (karpenter.sh/v1 spec.disruption.consolidateAfter).
func (r *run) untilConsolidation(n *model.Node, p *model.Pool) time.Duration {
	since := n.Initialized
	if n.LastPodEvent.After(since) {
		since = n.LastPodEvent
	}
	return max(p.Disruption.ConsolidateAfter, 0) - r.s.Now.Sub(since)
}
