package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// translate brings the record of a node up to date.
func (s *State) translate(m *node, now time.Time) {
	if m.staleBase {
		m.base = s.names.Node(m.object, m.claim)
		if m.base.Price == 0 {
			m.base.Price = s.pools.price(&m.base, m.claim)
		}
		if m.claim != nil {
			_, ending := s.nodes.ending[m.claim.UID]
			m.base.Deleting = m.base.Deleting || ending || s.nodes.expiring[m.claim.UID]
		}
		m.notReady = false
		if m.object != nil {
			m.base.AttachLimits = s.storage.limitsOf(m.object.Name)
			_, ready := translate.ReadySince(m.object)
			m.notReady = !ready
		}
		s.devices.equipNode(&m.base)
	}
	if m.staleBase || m.stalePods || (!m.wake.IsZero() && !now.Before(m.wake)) {
		s.addPods(m, now)
	}
	if m.shapes != s.shapes.epoch {
		reindex(m)
		m.shapes = s.shapes.epoch
	}
	m.staleBase, m.stalePods = false, false
}

// addPods adds the pods of a node and the daemons that have yet to start there.
func (s *State) addPods(m *node, now time.Time) {
	m.full, m.wake = m.base, time.Time{}
	at := &place{}
	if m.object != nil && s.pods.places[m.object.Name] != nil {
		at = s.pods.places[m.object.Name]
	}
	m.pods = slices.SortedFunc(maps.Values(at.pods), compareKeys)
	s.splitMoving(m, now)
	if m.object != nil {
		m.full.MissingDaemons = s.missing.lacks(m.object.Name)
	}
	m.full.Pods = make([]model.BoundPod, len(m.pods))
	m.full.LastPodEvent = later(m.full.LastPodEvent, at.left)
	daemons := map[string]bool{}
	for i, p := range m.pods {
		held := p.HeldUntil.After(now)
		if held && (m.wake.IsZero() || p.HeldUntil.Before(m.wake)) {
			m.wake = p.HeldUntil
		}
		m.full.Pods[i] = model.BoundPod{
			Pod: p.model(), Daemon: p.Daemon(), DoNotDisrupt: held, Terminal: p.Terminal, Terminating: p.Deleting,
			Returns: p.Deleting && p.Stateful, EvictionBlocked: p.heldBy(), EvictionCost: p.EvictionCost, Job: s.jobs.runOf(p),
		}
		m.full.LastPodEvent = later(m.full.LastPodEvent, p.Event)
		if !p.Terminal {
			m.full.Used = m.full.Used.Plus(p.shape.Requests)
		}
		if p.DaemonSet != "" {
			daemons[p.DaemonSet] = true
		}
	}
	for i := range s.daemons.list {
		d := &s.daemons.list[i]
		if !daemons[d.Namespace+"/"+d.Name] && translate.RunsOn(d, &m.base) {
			m.full.Used = m.full.Used.Plus(d.Shape.Requests)
			m.full.DaemonPorts = append(m.full.DaemonPorts, d.Shape.HostPorts...)
		}
	}
	m.shapes = s.shapes.epoch
}

// reindex updates the shape indices of a node's pods to the newest rendering.
func reindex(m *node) {
	m.full.Pods = slices.Clone(m.full.Pods)
	for i, p := range m.pods {
		m.full.Pods[i].Shape = p.shape.index
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
