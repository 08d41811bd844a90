package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/nodeless/nodeless/lab/sim"
)

// side is a decider in a row of bench sim, with its results by seed.
type side struct {
	decider sim.Decider
	results []sim.Result
	cpu     time.Duration // of all runs
}

func (s *side) run(c sim.Config) error {
	var r sim.Result
	var err error
	c.Decider = s.decider
	s.cpu += measure(func() { r, err = sim.Run(context.Background(), c) }).cpu
	s.results = append(s.results, r)
	return err
}

// The figures of a result that a row shows.
func cost(r *sim.Result) float64     { return r.Cost }
func hours(r *sim.Result) float64    { return r.Hours }
func moves(r *sim.Result) float64    { return float64(r.Moves) }
func launched(r *sim.Result) float64 { return float64(r.Launched) }
func waitMean(r *sim.Result) float64 { return r.Pending.Mean }
func waitP99(r *sim.Result) float64  { return r.Pending.P99 }

func (s *side) mean(of func(*sim.Result) float64) float64 {
	sum := 0.0
	for i := range s.results {
		sum += of(&s.results[i])
	}
	return sum / float64(len(s.results))
}

func (s *side) dollars(bound float64) string {
	return fmt.Sprintf("%.2f (+%.1f %%)", s.mean(cost), 100*(s.mean(cost)/bound-1))
}

func (s *side) waits() string { return fmt.Sprintf("%.1f/%.0f", s.mean(waitMean), s.mean(waitP99)) }

// against returns how much more s costs than the baseline, seed by seed; for several seeds, the mean with its
// standard error.
func (s *side) against(base *side) string {
	percent, n := make([]float64, len(s.results)), float64(len(s.results))
	mean, square := 0.0, 0.0
	for i := range s.results {
		percent[i] = 100 * (s.results[i].Cost/base.results[i].Cost - 1)
		mean += percent[i] / n
	}
	if n == 1 {
		return fmt.Sprintf("%+.1f %%", mean)
	}
	for _, p := range percent {
		square += (p - mean) * (p - mean)
	}
	return fmt.Sprintf("%+.1f %% ± %.1f", mean, math.Sqrt(square/(n-1)/n))
}
