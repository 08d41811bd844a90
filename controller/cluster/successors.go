package cluster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// successors are pods that were driven off machines that go, and whose ReplicaSets have not made the next ones yet, or had not a moment
// ago. Between the two nobody waits, on a busy cluster for a second and more, and a plan takes the room that was found for the pod for free.
// So snapshots have those that are due as Expected, for as long as nominated: no machine is launched for a pod that may never come, but no other
// goes on account of the room for it.
type successors struct {
	due      []departure // in the order in which they were asked to go
	came     []departure // whose successors came, or did not in time, in that order
	expected []model.Pod // what snapshots have of those that are due; nil = to be made
	shapes   int         // epoch of the shape indices in expected
}

// departure is for how long a pod was without a successor.
type departure struct {
	*pod         // that was driven off
	since, until time.Time
}

// expectSuccessor notes that the pod is asked to go, or is gone.
func (w *World) expectSuccessor(p *pod, now time.Time) {
	m := w.machines.nodes[p.Node]
	if p.Maker == "" || p.Deleting || !p.Movable() || m == nil || !w.going(m) {
		return
	}
	w.shapes.hold(p.shape)
	s := &w.successors
	s.due, s.expected = append(s.due, departure{pod: p, since: now}), nil
}

// succeed notes that a pod of the ReplicaSet came.
func (w *World) succeed(maker string, now time.Time) {
	if i := slices.IndexFunc(w.successors.due, func(d departure) bool { return maker != "" && d.Maker == maker }); i >= 0 {
		w.expectNoMore(i, now)
	}
}

func (w *World) expectNoMore(i int, until time.Time) {
	s := &w.successors
	d := s.due[i]
	d.until = until
	w.shapes.release(d.shape)
	s.due, s.came, s.expected = slices.Delete(s.due, i, i+1), append(s.came, d), nil
}

// expireSuccessors stops waiting for those that do not come.
func (w *World) expireSuccessors(now time.Time) {
	s := &w.successors
	over := func(d departure) bool { return now.Sub(d.since) >= nominated }
	for len(s.due) > 0 && over(s.due[0]) {
		w.expectNoMore(0, now)
	}
	s.came = slices.DeleteFunc(s.came, func(d departure) bool { return now.Sub(d.since) >= 2*nominated })
}

// renderExpected is Snapshot.Expected.
func (w *World) renderExpected() []model.Pod {
	s := &w.successors
	if len(s.due) == 0 {
		return nil
	}
	if s.expected == nil || s.shapes != w.shapes.epoch {
		s.expected, s.shapes = make([]model.Pod, len(s.due)), w.shapes.epoch
		for i, d := range s.due {
			s.expected[i] = d.model()
		}
		model.SortPending(s.expected)
	}
	return s.expected
}

// Overlooked reports whether the snapshot of that time lacks a pod that may take the place of one of these: another pod of their ReplicaSet had been
// driven off its machine, and its successor was not there yet. Successors that take longer than 10 s are not counted.
func (w *World) Overlooked(at time.Time, pods []model.PodKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.successors
	if len(s.due)+len(s.came) == 0 {
		return false
	}
	makers := map[string]bool{}
	for _, key := range pods {
		if p := w.pods[types.NamespacedName{Namespace: key.Namespace, Name: key.Name}]; p != nil && p.Key == key && p.Maker != "" {
			makers[p.Maker] = true
		}
	}
	lacks := func(d departure) bool {
		return makers[d.Maker] && !d.since.After(at) && at.Sub(d.since) < nominated && (d.until.IsZero() || !d.until.Before(at))
	}
	return slices.ContainsFunc(s.due, lacks) || slices.ContainsFunc(s.came, lacks)
}
