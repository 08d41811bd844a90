package cluster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// successors tracks pods that were evicted from nodes being removed and whose ReplicaSets have not created the next
// ones yet, or had not a moment ago. In between no pod waits, on a busy cluster for a second or more, and a plan
// considers the capacity found for the pod to be free. So snapshots have the successors that are due as Expected, for
// the duration nominated: no node is launched for a pod that may never come, but no other node is removed on account
// of the capacity intended for it.
type successors struct {
	*hub
	nodes  *nodes
	shapes *shapes
	pods   map[types.NamespacedName]*pod // all pods; owned by pods, which sets it

	due      []departure // in the order of their eviction
	came     []departure // whose successors came, or did not in time, in that order
	expected []model.Pod // those due, in the form of snapshots; nil = to be made
	epoch    int         // epoch of the shape indices in expected
}

// departure is the time for which a pod was without a successor.
type departure struct {
	*pod         // that was evicted
	since, until time.Time
}

// expectSuccessor records that the pod is being evicted or is gone.
func (ss *successors) expectSuccessor(p *pod, now time.Time) {
	m := ss.nodes.byName[p.Node]
	if p.Maker == "" || p.Deleting || !p.Movable() || m == nil || !ss.nodes.going(m) {
		return
	}
	ss.shapes.hold(p.shape)
	ss.due, ss.expected = append(ss.due, departure{pod: p, since: now}), nil
}

// succeed records that a pod of the ReplicaSet was created.
func (ss *successors) succeed(maker string, now time.Time) {
	if i := slices.IndexFunc(ss.due, func(d departure) bool { return maker != "" && d.Maker == maker }); i >= 0 {
		ss.expectNoMore(i, now)
	}
}

func (ss *successors) expectNoMore(i int, until time.Time) {
	d := ss.due[i]
	d.until = until
	ss.shapes.release(d.shape)
	ss.due, ss.came, ss.expected = slices.Delete(ss.due, i, i+1), append(ss.came, d), nil
}

// expireSuccessors stops waiting for overdue successors.
func (ss *successors) expireSuccessors(now time.Time) {
	over := func(d departure) bool { return now.Sub(d.since) >= nominated }
	for len(ss.due) > 0 && over(ss.due[0]) {
		ss.expectNoMore(0, now)
	}
	ss.came = slices.DeleteFunc(ss.came, func(d departure) bool { return now.Sub(d.since) >= 2*nominated })
}

// renderExpected returns the successors in Snapshot.Expected.
func (ss *successors) renderExpected() []model.Pod {
	if len(ss.due) == 0 {
		return nil
	}
	if ss.expected == nil || ss.epoch != ss.shapes.epoch {
		ss.expected, ss.epoch = make([]model.Pod, len(ss.due)), ss.shapes.epoch
		for i, d := range ss.due {
			ss.expected[i] = d.model()
		}
		model.SortPending(ss.expected)
	}
	return ss.expected
}

// Overlooked reports whether a snapshot taken at that time lacks a pod that may take the place of one of the given
// pods: another pod of their ReplicaSet had been evicted from its node, and its successor did not exist yet.
// Successors that take longer than 10 s are not counted.
func (ss *successors) Overlooked(at time.Time, pods []model.PodKey) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.due)+len(ss.came) == 0 {
		return false
	}
	makers := map[string]bool{}
	for _, key := range pods {
		if p := ss.pods[types.NamespacedName{Namespace: key.Namespace, Name: key.Name}]; p != nil && p.Key == key &&
			p.Maker != "" {
			makers[p.Maker] = true
		}
	}
	lacks := func(d departure) bool {
		return makers[d.Maker] && !d.since.After(at) && at.Sub(d.since) < nominated &&
			(d.until.IsZero() || !d.until.Before(at))
	}
	return slices.ContainsFunc(ss.due, lacks) || slices.ContainsFunc(ss.came, lacks)
}
