package main

import (
	"slices"
	"strings"
	"time"
)

// waits are the waiting times of a workload's pods, in seconds.
type waits struct {
	Pods     int     `json:"pods"`
	NeverRan int     `json:"neverRan"` // never ran, whether deleted or not
	Hung     int     `json:"hung"`     // of those, bound and not deleted at the end: ContainerCreating
	P50      float64 `json:"p50Seconds"`
	P99      float64 `json:"p99Seconds"`
	// Some is the total time during which at least one pod waited: in a workload of one step, the time until all run.
	Some float64 `json:"somePodWaitedSeconds"`
}

func (p *podTimes) in(namespace string) bool { return strings.HasPrefix(p.Name, namespace+"/") }

// waited returns the interval in which a pod waited: until it ran, was deleted, or the race ended.
func (p *podTimes) waited(end time.Time) (from, to time.Time) {
	to = end
	for _, t := range []time.Time{p.Ready, p.Deleted} {
		if !t.IsZero() && t.Before(to) {
			to = t
		}
	}
	return p.Created, to
}

// waitsOf summarizes the pods of a namespace that were created in a window.
func waitsOf(pods []podTimes, namespace string, start, end time.Time) waits {
	var w waits
	var took []float64
	var busy time.Duration
	last := start // busy covers the time up to here; pods are in order of creation
	for _, p := range pods {
		if !p.in(namespace) || p.Created.Before(start) {
			continue
		}
		w.Pods++
		from, to := p.waited(end)
		if p.Ready.IsZero() {
			w.NeverRan++
			if !p.Bound.IsZero() && p.Deleted.IsZero() {
				w.Hung++
			}
		}
		if p.Ready.IsZero() && !p.Deleted.IsZero() {
			continue // not needed: its owner was scaled down, or it was preempted and its replacement waits instead
		}
		took = append(took, to.Sub(from).Seconds())
		if from.Before(last) {
			from = last
		}
		if to.After(from) {
			busy, last = busy+to.Sub(from), to
		}
	}
	slices.Sort(took)
	w.P50, w.P99, w.Some = quantile(took, 0.5), quantile(took, 0.99), busy.Seconds()
	return w
}

// quantile returns the smallest of the sorted values that is not exceeded by a share q of them; 0 if there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, min(len(sorted)-1, int(float64(len(sorted))*q+0.999999)-1))]
}
