package why

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/query"
	"github.com/nodeless/nodeless/explain/record"
)

// longestBackoff is after how long at most the controller asks again for what was out of capacity, and has written down what came of it.
const longestBackoff = cluster.MostBackoff + 2*time.Minute

// pending answers about a pod that waits for a place.
func (q *podQuestion) pending(ctx context.Context) {
	waited := q.waited()
	p, ok := query.OfPod(q.s, q.policy, q.info.Key)
	if !ok {
		q.conclude(waited, NotOurs, "nothing is decided about it now")
		return
	}
	var none *record.Record
	if p.Launch != nil {
		if none = q.soldOut(ctx); none != nil {
			p, _ = query.SoldOut(q.s, q.policy, q.info.Key)
		}
	}
	switch {
	case p.Node != nil:
		q.conclude(waited, HasRoom, "there is room for it on %s; kube-scheduler has to bind it", machine(p.Node))
		q.a.Node = p.Node.Name
		if p.Node.State != model.Initialized {
			q.conclude(waited, Launches, "its machine is on its way: %s", machine(p.Node))
		}
	case p.Launch != nil:
		q.conclude(waited, Launches, "a machine has to be launched for it, and can be")
	case none != nil:
		q.conclude(waited, NoMachine, "nothing can take it, and the cloud has none of the machines that could be launched for it")
	default:
		q.conclude(waited, NoMachine, "nothing can take it, and no machine can be launched for it")
	}
	q.asks(p.Shape)
	if p.Node != nil && p.Node.State != model.Initialized {
		if claim := q.c.World.Claim(p.Node.Claim); claim != nil {
			q.say("still lacks", firstLacking(claim))
		}
	}
	q.refusals(&p)
	if p.Launch != nil {
		q.launch(p.Launch)
	}
	if p.Reason != nil {
		q.reason(ctx, &p)
	}
	if none != nil && none.Again != "" {
		q.sayf("asked again", "first %s, said the controller %s ago; later each time that there is none", none.Again, q.ago(none.Time))
	}
	q.scheduler()
}

// soldOut is the last that was decided about a pod, if that is that the cloud has none of the machines it could have, else nil. The
// controller alone knows it. It asks the cloud again and again, and each time that there is none it says so again: what it said long ago
// holds no more.
func (q *podQuestion) soldOut(ctx context.Context) *record.Record {
	h, err := q.history(ctx, q.of)
	if err != nil || len(h.about) == 0 { // decided says what could not be read
		return nil
	}
	last := &h.about[len(h.about)-1]
	if last.Kind != record.Refuse || last.Rule != string(model.RuleCapacity) || q.s.Now.Sub(last.Time) > longestBackoff {
		return nil
	}
	return last
}
