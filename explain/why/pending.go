package why

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/query"
	"github.com/nodeless/nodeless/explain/record"
)

// longestBackoff is the longest time between two requests of the controller for an offering without capacity, plus
// the time to record the outcome.
const longestBackoff = cluster.MostBackoff + 2*time.Minute

// pending answers about a pod that waits for a node.
func (q *podQuestion) pending(ctx context.Context) {
	waited := q.waited()
	p, ok := query.OfPod(q.s, q.policy, q.info.Key)
	if !ok {
		q.conclude(waited, NotManaged, "no decision about it is due now")
		return
	}
	var none *record.Record
	if p.Launch != nil && q.withoutAddresses(ctx, &p) {
		return
	}
	if p.Launch != nil {
		if none = q.soldOut(ctx); none != nil {
			p, _ = query.SoldOut(q.s, q.policy, q.info.Key)
		}
	}
	switch {
	case p.Node != nil:
		q.conclude(waited, HasRoom, "%s has room for it; kube-scheduler has to bind it", nodeText(p.Node))
		q.a.Node = p.Node.Name
		if p.Node.State != model.Initialized {
			q.conclude(waited, Launching, "its node is not ready yet: %s", nodeText(p.Node))
		}
	case p.Launch != nil:
		q.conclude(waited, Launching, "a node has to be launched for it, and can be")
	case none != nil:
		q.conclude(waited, Unschedulable, "no node can take it, and the cloud has no capacity for any that could be launched")
	default:
		q.conclude(waited, Unschedulable, "no node can take it, and none can be launched for it")
	}
	q.requests(p.Shape)
	if p.Node != nil && p.Node.State != model.Initialized {
		if claim := q.c.State.Claim(p.Node.Claim); claim != nil {
			q.say("waiting for", firstLacking(claim))
		}
	}
	q.refusals(&p)
	if p.Launch != nil {
		q.launch(p.Launch)
	}
	if p.Reason != nil {
		q.reason(ctx, &p)
		q.branches()
	}
	if none != nil && none.Again != "" {
		q.sayf("next retry", "%s, the controller recorded %s ago; the interval grows with every failure", none.Again,
			q.ago(none.Time))
	}
	q.scheduler()
}

// withoutAddresses answers about a pod for which nothing is launched because no subnet has enough addresses for a
// node, and reports whether that is the case. Only the controller knows how many are free. Its decision holds until
// the next.
func (q *podQuestion) withoutAddresses(ctx context.Context, p *query.Pod) bool {
	h, err := q.history(ctx, q.of)
	if err != nil || len(h.about) == 0 {
		return false
	}
	last := &h.about[len(h.about)-1]
	if last.Kind != record.Unschedulable || last.Rule != string(model.RuleAddresses) {
		return false
	}
	q.conclude(q.waited(), Unschedulable, "no node can take it, and no subnet has the addresses of one more")
	q.requests(p.Shape)
	q.refusals(p)
	q.sayf("subnets", "%s, the controller recorded %s ago", last.Why, q.ago(last.Time))
	q.scheduler()
	return true
}

// soldOut returns the last decision about a pod if it says that the cloud has no capacity for any node the pod could
// use, else nil. Only the controller knows that. It repeats the decision after every failed request, so an old
// decision no longer holds.
func (q *podQuestion) soldOut(ctx context.Context) *record.Record {
	h, err := q.history(ctx, q.of)
	if err != nil || len(h.about) == 0 { // decided reports what could not be read
		return nil
	}
	last := &h.about[len(h.about)-1]
	if last.Kind != record.Unschedulable || last.Rule != string(model.RuleCapacity) ||
		q.s.Now.Sub(last.Time) > longestBackoff {
		return nil
	}
	return last
}
