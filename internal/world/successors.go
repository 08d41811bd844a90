package world

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// successors are pods that were driven off machines that go, and whose ReplicaSets have not made the next ones yet, or had not a moment
// ago. Between the two nobody waits, on a busy cluster for a second and more, and a plan takes the room that was found for the pod for free.
type successors struct {
	due  []departure // in the order in which they were asked to go
	came []departure // whose successors came, in that order
}

// departure is for how long a pod was without a successor.
type departure struct {
	maker        string
	since, until time.Time
}

// expectSuccessor notes that the pod is asked to go, or is gone.
func (w *World) expectSuccessor(p *pod, now time.Time) {
	m := w.machines.nodes[p.Node]
	if p.Maker == "" || p.Deleting || !p.Movable() || m == nil || !w.going(m) {
		return
	}
	s := &w.successors
	over := func(d departure) bool { return now.Sub(d.since) >= nominated }
	s.due, s.came = slices.DeleteFunc(s.due, over), slices.DeleteFunc(s.came, over)
	s.due = append(s.due, departure{maker: p.Maker, since: now})
}

// succeed notes that a pod of the ReplicaSet came.
func (w *World) succeed(maker string, now time.Time) {
	s := &w.successors
	if i := slices.IndexFunc(s.due, func(d departure) bool { return maker != "" && d.maker == maker }); i >= 0 {
		d := s.due[i]
		d.until = now
		s.due, s.came = slices.Delete(s.due, i, i+1), append(s.came, d)
	}
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
		return makers[d.maker] && !d.since.After(at) && at.Sub(d.since) < nominated && (d.until.IsZero() || !d.until.Before(at))
	}
	return slices.ContainsFunc(s.due, lacks) || slices.ContainsFunc(s.came, lacks)
}
