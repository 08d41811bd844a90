package cluster

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// splitMoving removes from the record of a node being removed the pods that must leave it, so that they count as
// pending. A node that is only tainted is not being removed: a taint alone is no reason to launch another node.
func (s *State) splitMoving(m *node, now time.Time) {
	m.moving = nil
	if !s.nodes.going(m) {
		return
	}
	// Budgets and annotations delay the pods, but all of them leave in the end.
	deadline := translate.Migrating(m.object) || translate.HasDeadline(m.claim) && !s.nodes.mayStay(m)
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

// mayStay reports whether the node is only the victim of a command that a protected pod undoes in spite of the claim's
// deadline (engine.StillTrue). Drift does not wait for pods that have one.
func (ns *nodes) mayStay(m *node) bool {
	c, victim, err := translate.CommandOf(m.claim)
	return victim && err == nil && c.Method != model.Drifted && !ns.leaves(m)
}

// collectMoving gathers the pods that must leave their nodes. If there are none, which is nearly always, it costs
// nothing.
func (s *State) collectMoving() {
	var moving []*pod
	for _, m := range s.nodes.ordered {
		moving = append(moving, m.moving...)
	}
	slices.SortFunc(moving, comparePods)
	if !slices.Equal(moving, s.out.moving) {
		s.out.moving, s.stalePending = moving, true
	}
}

// renderPending merges the waiting pods with those that must leave their nodes, both in order.
func (s *State) renderPending() []model.Pod {
	out := make([]model.Pod, 0, len(s.pods.waiting)+len(s.out.moving))
	rest := s.out.moving
	for _, p := range s.pods.waiting {
		if p.incomplete() {
			continue
		}
		for len(rest) > 0 && comparePods(rest[0], p) < 0 {
			out, rest = append(out, rest[0].leaving()), rest[1:]
		}
		m := p.model()
		m.Nominated = s.nominations.nominated(p)
		out = append(out, m)
	}
	for _, p := range rest {
		out = append(out, p.leaving())
	}
	return out
}

// model returns the pod in the engine's form.
func (p *pod) model() model.Pod {
	return model.Pod{PodKey: p.Key, Shape: p.shape.index, Priority: p.Priority, Created: p.Created}
}

// leaving returns a pod that must leave its node in the engine's form.
func (p *pod) leaving() model.Pod {
	m := p.model()
	m.From = p.Node
	return m
}
