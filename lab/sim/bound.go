package sim

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// Bound returns a proven lower bound on the cost of the trace's pods, in dollars: the minimum cost of nodes that hold
// the pods alive at a moment (Plan.LowerBound), summed over evenly spaced moments. Apart from the sampling error,
// nobody who runs each pod as soon as it arrives pays less, however pods are moved.
func Bound(ctx context.Context, c Config, samples int) (float64, error) {
	c.Decider = Compatible() // the bound does not depend on the decider
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
