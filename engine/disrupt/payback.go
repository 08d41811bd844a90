package disrupt

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// paysBack says that pods of one of the machines are too young for their moves: what the proposal costs at once would not be saved
// again in the time for which they can be expected to be there. It notes when they will be old enough.
func (c *consolidation) paysBack(p *proposal) model.Reason {
	need, have := c.payback(p), model.Unknown
	for _, n := range p.victims {
		have = min(have, c.remaining(n))
	}
	if have >= need {
		return model.Reason{}
	}
	reason := model.Reason{Rule: model.RulePayback, Detail: need.String(), Best: have.Round(time.Second).String()}
	if need != model.Unknown {
		reason.Until = c.s.Now.Add(need - have)
		if len(p.victims) == 1 {
			c.lookAgain(reason.Until)
		}
	}
	return reason
}

// payback is after how long the proposal has saved what it costs.
func (c *consolidation) payback(p *proposal) time.Duration {
	launched, moves := launchPrice(&p.plan), int64(0)
	for _, n := range p.victims {
		moves += movingCost(n) - 1000
	}
	return c.policy.Payback(priceOf(p.victims)-launched, launched, moves)
}

// remaining is for how long the machine's pods can be expected to be there.
func (c *consolidation) remaining(n *model.Node) time.Duration {
	var pods []model.Pod
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			pods = append(pods, n.Pods[i].Pod)
		}
	}
	return model.Remaining(c.s.Now, pods)
}

// lookAgain notes that there may be more to do then though nothing changes.
func (r *run) lookAgain(at time.Time) {
	if r.again.IsZero() || at.Before(r.again) {
		r.again = at
	}
}
