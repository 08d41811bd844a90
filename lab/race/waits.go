package main

import (
	"slices"
	"strings"
	"time"
)

// waits is what the pods of a workload waited, in seconds.
type waits struct {
	Pods     int     `json:"pods"`
	NeverRan int     `json:"neverRan"` // deleted, or still there, without having run
	Hung     int     `json:"hung"`     // of those, with a node, at the end: ContainerCreating
	P50      float64 `json:"p50Seconds"`
	P99      float64 `json:"p99Seconds"`
	// Some is for how long some pod or other waited: in a workload of one step, the time until all run.
	Some float64 `json:"somePodWaitedSeconds"`
}

func (p *podTimes) in(namespace string) bool { return strings.HasPrefix(p.Name, namespace+"/") }

// waited returns from when until when a pod waited: until it ran, was deleted, or the race ended.
func (p *podTimes) waited(end time.Time) (from, to time.Time) {
	to = end
	for _, t := range []time.Time{p.Ready, p.Deleted} {
		if !t.IsZero() && t.Before(to) {
			to = t
		}
	}
	return p.Created, to
}

// waitsOf sums up the pods of a namespace that were created in a window.
func waitsOf(pods []podTimes, namespace string, start, end time.Time) waits {
	var w waits
	var took []float64
	var busy time.Duration
	last := start // until when busy is counted; pods come in the order of their creation
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
			continue // nobody missed it: its owner was scaled down, or it was preempted and another one waits in its place
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

// quantile is the smallest of sorted values that a share q of them does not exceed; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, min(len(sorted)-1, int(float64(len(sorted))*q+0.999999)-1))]
}
