package sim

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// Bound returns a proven lower bound of what the trace's pods cost, in dollars: the least that any nodes cost which
// hold the pods alive at a moment (Plan.LowerBound), summed over evenly spaced moments. Nobody who runs each pod as
// soon as it comes pays less, however pods are moved, apart from the error of the sampling.
func Bound(ctx context.Context, c Config, samples int) (float64, error) {
	c.Decider = Compatible() // the bound does not depend on who decides
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
