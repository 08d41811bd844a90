package cluster

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// splitMoving takes the pods that have to leave off a machine that goes, so that they are among those that wait. A machine
// that is only tainted is not going: somebody's taint is no reason to launch another one.
func (w *World) splitMoving(m *machine, now time.Time) {
	m.moving = nil
	if !w.going(m) {
		return
	}
	deadline := translate.HasDeadline(m.claim)
	var stay []*pod
	for _, p := range m.pods {
		held := p.HeldUntil.After(now)
		if p.Movable() && (deadline || !held && !p.blocked()) {
			m.moving = append(m.moving, p)
		} else {
			stay = append(stay, p)
		}
	}
	m.pods = stay
}

// going reports whether the machine is being deleted, is to go by a command, or is taken away by the cloud.
func (w *World) going(m *machine) bool {
	if !m.base.Deleting || m.node == nil {
		return false
	}
	if m.node.DeletionTimestamp != nil || m.base.Command != "" {
		return true
	}
	if m.claim == nil {
		return false
	}
	_, ending := w.ending[m.claim.UID]
	_, _, interrupted := translate.Interrupted(m.claim)
	return ending || interrupted || m.claim.DeletionTimestamp != nil
}

// collectMoving gathers the pods that have to leave. Where there are none, as nearly always, it costs nothing.
func (w *World) collectMoving() {
	var moving []*pod
	for _, m := range w.machines.ordered {
		moving = append(moving, m.moving...)
	}
	slices.SortFunc(moving, comparePods)
	if !slices.Equal(moving, w.out.moving) {
		w.out.moving, w.out.pending = moving, nil
	}
}

// renderPending merges the pods that wait with those that have to leave, both in order.
func (w *World) renderPending() []model.Pod {
	out := make([]model.Pod, 0, len(w.pending)+len(w.out.moving))
	rest := w.out.moving
	for _, p := range w.pending {
		for len(rest) > 0 && comparePods(rest[0], p) < 0 {
			out, rest = append(out, rest[0].leaving()), rest[1:]
		}
		m := p.model()
		m.Nominated = w.nominated(p)
		out = append(out, m)
	}
	for _, p := range rest {
		out = append(out, p.leaving())
	}
	return out
}

// leaving is the engine's form of a pod that has to leave its node.
func (p *pod) leaving() model.Pod {
	m := p.model()
	m.From = p.Node
	return m
}
