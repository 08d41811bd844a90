package disrupt

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// paysBack rejects a proposal if pods of one of the nodes are too young for their moves: its one-time cost would not
// be recovered within the pods' expected remaining life. It records when they will be old enough.
func (c *savings) paysBack(p *proposal) model.Reason {
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

// payback returns the time after which the proposal has saved what it costs.
func (c *savings) payback(p *proposal) time.Duration {
	launched, moves := launchPrice(&p.plan), int64(0)
	for _, n := range p.victims {
		moves += movingCost(n) - 1000
	}
	return c.policy.Payback(priceOf(p.victims)-launched, launched, moves)
}

// remaining returns how long the node's pods can be expected to keep running.
func (c *savings) remaining(n *model.Node) time.Duration {
	var pods []model.Pod
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			pods = append(pods, n.Pods[i].Pod)
		}
	}
	return model.Remaining(c.s.Now, pods)
}

// lookAgain records that there may be more to do at that time although nothing changes.
func (r *run) lookAgain(at time.Time) {
	if r.again.IsZero() || at.Before(r.again) {
		r.again = at
	}
}
