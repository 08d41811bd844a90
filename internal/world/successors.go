package world

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// successors are pods that were driven off machines that go, and whose controllers have not made the next ones yet. Between a pod's
// eviction and its successor nobody waits, and the room that was found for the two would look free to the next machine's pods: on a busy
// cluster for a second and more. So they are counted as pods that have to leave, until a pod of the same controller comes, or for as long as
// nominated if none does.
type successors struct {
	due     []*departed // in the order in which they were asked to go
	missing map[model.PodKey]bool
}

// departed is a pod that was asked to go.
type departed struct {
	*pod
	until time.Time
}

// expectSuccessor notes that the pod was asked to go, or is gone.
func (w *World) expectSuccessor(p *pod, now time.Time) {
	m := w.machines.nodes[p.Node]
	if p.Maker == "" || p.Deleting || !p.Movable() || m == nil || !w.going(m) {
		return
	}
	s := &w.successors
	if s.missing == nil {
		s.missing = map[model.PodKey]bool{}
	}
	w.shapes.hold(p.shape)
	s.due, s.missing[p.Key] = append(s.due, &departed{p, now.Add(nominated)}), true
	w.machines.touchPods(p.Node)
}

// succeed notes that a pod of the controller came.
func (w *World) succeed(maker string) {
	if i := slices.IndexFunc(w.successors.due, func(d *departed) bool { return maker != "" && d.Maker == maker }); i >= 0 {
		w.forgetDeparted(i)
	}
}

// expireDeparted stops waiting for successors that do not come.
func (w *World) expireDeparted(now time.Time) {
	for len(w.successors.due) > 0 && !now.Before(w.successors.due[0].until) {
		w.forgetDeparted(0)
	}
}

func (w *World) forgetDeparted(i int) {
	s := &w.successors
	d := s.due[i]
	s.due = slices.Delete(s.due, i, i+1)
	delete(s.missing, d.Key)
	w.shapes.release(d.shape)
	w.machines.touchPods(d.Node)
	w.machines.stale = true // the Node may be gone
}
