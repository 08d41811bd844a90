package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// translate brings a machine up to date.
func (w *World) translate(m *machine, now time.Time) {
	if m.staleBase {
		m.base = w.names.Node(m.node, m.claim)
		if m.base.Price == 0 {
			m.base.Price = w.price(&m.base, m.claim)
		}
		if m.claim != nil {
			_, ending := w.ending[m.claim.UID]
			m.base.Deleting = m.base.Deleting || ending
		}
		m.notReady = false
		if m.node != nil {
			m.base.AttachLimits = w.limitsOf(m.node.Name)
			_, ready := translate.ReadySince(m.node)
			m.notReady = !ready
		}
	}
	if m.staleBase || m.stalePods || (!m.wake.IsZero() && !now.Before(m.wake)) {
		w.addPods(m, now)
	}
	if m.shapes != w.shapes.epoch {
		reindex(m)
		m.shapes = w.shapes.epoch
	}
	m.staleBase, m.stalePods = false, false
}

// addPods completes the machine with its pods, and with the daemons that will come.
func (w *World) addPods(m *machine, now time.Time) {
	m.full, m.wake = m.base, time.Time{}
	var at place
	if m.node != nil {
		at = w.places[m.node.Name]
	}
	m.pods = slices.SortedFunc(maps.Values(at.pods), compareKeys)
	w.splitMoving(m, now)
	if m.node != nil {
		m.full.MissingDaemons = w.lacks(m.node.Name)
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
			EvictionBlocked: p.heldBy(), EvictionCost: p.EvictionCost, Job: w.jobs.runOf(p),
		}
		m.full.LastPodEvent = later(m.full.LastPodEvent, p.Event)
		if !p.Terminal {
			m.full.Used = m.full.Used.Plus(p.shape.Requests)
		}
		if p.DaemonSet != "" {
			daemons[p.DaemonSet] = true
		}
	}
	for i := range w.out.daemons {
		d := &w.out.daemons[i]
		if !daemons[d.Namespace+"/"+d.Name] && translate.RunsOn(d, &m.base) {
			m.full.Used = m.full.Used.Plus(d.Shape.Requests)
		}
	}
	m.shapes = w.shapes.epoch
}

// reindex gives the pods of a machine the shape indices of the newest rendering.
func reindex(m *machine) {
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
