package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// rendered is what snapshots share until it changes.
type rendered struct {
	pending []model.Pod
	shapes  int              // epoch of the shape indices in pending
	moving  []*pod           // must leave their nodes; by Created, Namespace, Name
	nodes   []model.Node     // nil = to be made
	usage   map[string]usage // by pool
	wake    time.Time        // when nodes change without an event, zero if they do not
}

// Snapshot returns the current state of the cluster. It never changes afterwards; snapshots share what did not change
// between them.
func (s *State) Snapshot() *model.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.refresh(now)
	s.setAlarm(now)
	if s.out.nodes == nil {
		s.out.nodes = s.renderNodes()
	}
	expected := s.renderExpected(now)
	s.placeholders.yieldToExpected()
	if s.stalePending || s.out.pending == nil || s.out.shapes != s.shapes.epoch {
		s.out.pending = s.placeholders.addVirtual(s.renderPending())
		s.out.shapes, s.stalePending = s.shapes.epoch, false
	}
	return &model.Snapshot{
		Now: now, ResourceNames: s.names.List(), Shapes: s.shapes.list, Pending: s.out.pending,
		Expected: expected, Nodes: s.out.nodes,
		Pools: s.pools.renderPools(s.out.usage, now), Daemons: s.daemons.list,
		Namespaces: s.objects.renderNamespaces(), Subnets: s.subnets.render(s.pools.catalogs),
		Unsettled: s.unsettled(),
	}
}

// refresh brings shapes, nodes and usage up to date, which writes need too. What only a snapshot needs is made in
// Snapshot.
func (s *State) refresh(now time.Time) {
	s.nodes.expire(now)
	s.successors.expireSuccessors(now)
	s.recount()
	s.pods.refreshCapacities()
	s.overlaid.overlay()
	epoch := s.shapes.epoch
	s.shapes.render()
	due := !s.out.wake.IsZero() && !now.Before(s.out.wake)
	if !s.nodes.stale && epoch == s.shapes.epoch && !due && s.out.usage != nil {
		return
	}
	s.nodes.order()
	s.out.nodes, s.out.usage, s.out.wake = nil, map[string]usage{}, time.Time{}
	for _, m := range s.nodes.ordered {
		s.translate(m, now)
		s.count(m)
		if !m.wake.IsZero() && (s.out.wake.IsZero() || m.wake.Before(s.out.wake)) {
			s.out.wake = m.wake
		}
	}
	s.nodes.stale = false
	if len(s.nominations.promised) > 0 {
		s.stalePending = true // the name of a node may have changed
	}
	s.collectMoving()
}

// renderNodes lists all nodes by Name and Claim.
func (s *State) renderNodes() []model.Node {
	nodes := make([]model.Node, len(s.nodes.ordered))
	for i, m := range s.nodes.ordered {
		nodes[i] = m.full
		nodes[i].NominatedUntil = s.nominations.nominees[m.name()]
		nodes[i].Unaddressed = s.subnets.unaddressed(&nodes[i])
	}
	slices.SortFunc(nodes, func(a, b model.Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Claim, b.Claim))
	})
	return nodes
}

// count adds a node to its pool's usage. For budgets, see karpenter.sh/docs/concepts/disruption.
func (s *State) count(m *node) {
	if m.base.Pool == "" {
		return
	}
	u := s.out.usage[m.base.Pool]
	u.resources = u.resources.Plus(m.base.Capacity)
	u.nodes++
	if m.claim != nil && m.base.State == model.Initialized && !translate.Terminating(m.claim) {
		u.budgeted++
		if m.base.Deleting || m.notReady {
			u.going++
		}
	}
	s.out.usage[m.base.Pool] = u
}

// alarm signals a change at a time when nothing but the clock changes: a hold on a pod ends, say, or a window of a
// budget opens or closes.
type alarm struct {
	at    time.Time
	timer clock.Timer
}

// setAlarm sets the alarm to the next such time.
func (s *State) setAlarm(now time.Time) {
	at := s.out.wake
	if due := s.successors.due; len(due) > 0 && (at.IsZero() || due[0].since.Add(nominated).Before(at)) {
		at = due[0].since.Add(nominated)
	}
	if due := s.owners.until; due.After(now) && (at.IsZero() || due.Before(at)) {
		at = due
	}
	for _, np := range s.objects.pools.live {
		if next := translate.NextWindow(np, now); !next.IsZero() && (at.IsZero() || next.Before(at)) {
			at = next
		}
	}
	if at.Equal(s.alarm.at) {
		return
	}
	if s.alarm.timer != nil {
		s.alarm.timer.Stop()
	}
	s.alarm = alarm{at: at}
	if at.After(now) && at.Before(translate.Forever) {
		s.alarm.timer = s.clock.AfterFunc(at.Sub(now), s.poke)
	}
}

// Budgeted returns how many of a pool's nodes its budgets apply to, and how many of those count against them now.
func (s *State) Budgeted(pool string) (machines, going int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh(s.clock.Now())
	u := s.out.usage[pool]
	return u.budgeted, u.going
}

// PoolUsage returns the capacity and the number of all nodes of a pool, including those in flight or being removed.
func (s *State) PoolUsage(pool string) (model.Resources, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh(s.clock.Now())
	u := s.out.usage[pool]
	return u.resources, u.nodes
}

// NodeOfClaim returns the node of a claim as a snapshot taken now shows it, and whether there is one.
func (s *State) NodeOfClaim(claim string) (model.Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh(s.clock.Now())
	if m := s.nodes.ofClaim(claim); m != nil {
		return m.full, true
	}
	return model.Node{}, false
}
