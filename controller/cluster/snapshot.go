package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// unseen is how long a claim that we wrote is believed in without the watch showing it, and a deletion that we asked
// for.
const unseen = 30 * time.Second

// rendered is what snapshots share as long as it does not change.
type rendered struct {
	daemons    []model.Daemon
	namespaces []model.Namespace // nil = to be made
	pending    []model.Pod       // nil = to be made
	shapes     int               // epoch of the shape indices in pending
	moving     []*pod            // have to leave their machines; by Created, Namespace, Name
	nodes      []model.Node      // nil = to be made
	usage      map[string]usage  // by pool
	wake       time.Time         // when nodes change by themselves, zero if they do not
}

// Snapshot is the cluster now. It is never changed afterwards; snapshots share what did not change between them.
func (w *World) Snapshot() *model.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	w.refresh(now)
	w.setAlarm(now)
	if w.out.nodes == nil {
		w.out.nodes = w.renderNodes()
	}
	if w.out.pending == nil || w.out.shapes != w.shapes.epoch {
		w.out.pending = w.addVirtual(w.renderPending())
		w.out.shapes = w.shapes.epoch
	}
	return &model.Snapshot{
		Now: now, ResourceNames: w.names.List(), Shapes: w.shapes.list, Pending: w.out.pending, Expected: w.renderExpected(), Nodes: w.out.nodes,
		Pools: w.renderPools(now), Daemons: w.out.daemons, Namespaces: w.renderNamespaces(),
	}
}

// refresh brings shapes, machines and usage up to date. Every write asks for it; what only a snapshot needs is made there.
func (w *World) refresh(now time.Time) {
	w.expire(now)
	w.expireSuccessors(now)
	w.overlay()
	epoch := w.shapes.epoch
	w.shapes.render()
	due := !w.out.wake.IsZero() && !now.Before(w.out.wake)
	if !w.machines.stale && epoch == w.shapes.epoch && !due && w.out.usage != nil {
		return
	}
	w.machines.order()
	w.out.nodes, w.out.usage, w.out.wake = nil, map[string]usage{}, time.Time{}
	for _, m := range w.machines.ordered {
		w.translate(m, now)
		w.count(m)
		if !m.wake.IsZero() && (w.out.wake.IsZero() || m.wake.Before(w.out.wake)) {
			w.out.wake = m.wake
		}
	}
	w.machines.stale = false
	if len(w.promised) > 0 {
		w.out.pending = nil // a machine may be called otherwise now
	}
	w.collectMoving()
}

// renderNodes is all machines, by Name and Claim.
func (w *World) renderNodes() []model.Node {
	nodes := make([]model.Node, len(w.machines.ordered))
	for i, m := range w.machines.ordered {
		nodes[i] = m.full
		nodes[i].NominatedUntil = w.nominees[m.name()]
	}
	slices.SortFunc(nodes, func(a, b model.Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Claim, b.Claim))
	})
	return nodes
}

// order lists the machines by name.
func (ms *machines) order() {
	if ms.ordered != nil {
		return
	}
	ms.ordered = make([]*machine, 0, len(ms.nodes)+len(ms.flying))
	for _, m := range ms.nodes {
		ms.ordered = append(ms.ordered, m)
	}
	for _, m := range ms.flying {
		ms.ordered = append(ms.ordered, m)
	}
	slices.SortFunc(ms.ordered, func(a, b *machine) int { return cmp.Compare(a.name(), b.name()) })
}

func (m *machine) name() string {
	if m.node != nil {
		return m.node.Name
	}
	return m.claim.Name
}

// count adds a machine to its pool's usage. Of budgets, see reference karpenter.md §1.5.
func (w *World) count(m *machine) {
	if m.base.Pool == "" {
		return
	}
	u := w.out.usage[m.base.Pool]
	u.resources = u.resources.Plus(m.base.Capacity)
	u.nodes++
	if m.claim != nil && m.base.State == model.Initialized && !translate.Terminating(m.claim) {
		u.budgeted++
		if m.base.Deleting || m.notReady {
			u.going++
		}
	}
	w.out.usage[m.base.Pool] = u
}

// expire stops believing in what we wrote and the watch never showed.
func (w *World) expire(now time.Time) {
	for uid, at := range w.written {
		if now.Sub(at) < unseen {
			continue
		}
		delete(w.written, uid)
		for key, c := range w.claims.live {
			if c.UID == uid {
				delete(w.claims.live, key)
				w.removeClaim(key.Name)
			}
		}
	}
	for uid, at := range w.ending {
		if now.Sub(at) < unseen {
			continue
		}
		delete(w.ending, uid)
		for _, c := range w.claims.live {
			if c.UID == uid {
				w.machines.touchClaim(c.Name)
			}
		}
	}
}
