package sim

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// Bound is a proven lower bound of what the trace's pods cost, in dollars: at so many moments, evenly spaced, the
// least that any set of machines costs which holds the pods that are alive then (Plan.LowerBound), times the time
// between them. Nobody who runs each pod when it comes pays less, whatever was moved, but for the error of the
// sampling.
func Bound(ctx context.Context, c Config, samples int) (float64, error) {
	c.Decider = Compatible() // whoever decides: the bound is everybody's
	c, err := c.defaults()
	if err != nil {
		return 0, err
	}
	r := newRun(c)
	var end time.Duration
	for i := range r.trace {
		end = max(end, r.trace[i].Start+r.trace[i].Life)
	}
	sum, each := 0.0, end/time.Duration(max(samples, 1))
	for k := range samples {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		at := each*time.Duration(k) + each/2
		s := &model.Snapshot{
			ResourceNames: model.WellKnownResources, Shapes: r.shapes, Daemons: r.daemons,
			Pools: []model.Pool{r.pool},
		}
		for i := range r.trace {
			p := &r.trace[i]
			if p.Start > at {
				break
			}
			if at < p.Start+p.Life {
				s.Pending = append(s.Pending, r.modelPod(&r.pods[i]))
			}
		}
		if len(s.Pending) > 0 {
			plan := engine.Provision(s, model.Policy{})
			sum += plan.LowerBound.Dollars() * each.Hours()
		}
		if c.Progress != nil {
			c.Progress(at, end)
		}
	}
	return sum, nil
}
