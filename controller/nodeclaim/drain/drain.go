// Package drain decides how pods leave a Node being removed: which are evicted now, which are deleted because the
// time is up, which are waited for, and when to decide again. It is pure.
//
// Facts: sigs.k8s.io/karpenter/pkg/controllers/node/termination.
package drain

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// Stuck is how long after its due end a pod is still waited for: its kubelet does not answer.
	Stuck = time.Minute
	// minGrace is the shortest grace period of a direct deletion: 0 would delete the pod's object while the pod runs.
	minGrace = time.Second
)

// Group is the order in which pods leave.
type Group int

// Groups, first to last.
const (
	Normal Group = iota
	Daemons
	Critical
	CriticalDaemons
)

// Pod is one pod on the Node, reduced to what matters here.
type Pod struct {
	Key      model.PodKey
	Daemon   bool // owned by a DaemonSet
	Critical bool // of priority class system-cluster-critical or system-node-critical
	Static   bool // owned by the Node
	Terminal bool
	Tolerant bool // tolerates the disrupted taint: it stays to the end
	// BlockedUntil is the end of karpenter.sh/do-not-disrupt; zero = its eviction is not blocked.
	BlockedUntil time.Time
	// Grace is the pod's own termination grace period.
	Grace time.Duration
	// Ends is when a pod that is being deleted is due to end (its deletionTimestamp); zero = it is not being deleted.
	Ends time.Time
	// NotBefore is when an eviction that was refused may be tried again; zero = now.
	NotBefore time.Time
	// Surging says that until NotBefore the drain waits for a replacement from its Deployment.
	Surging bool
}

// Group returns the group that the pod leaves with.
func (p *Pod) Group() Group {
	switch {
	case p.Critical && p.Daemon:
		return CriticalDaemons
	case p.Critical:
		return Critical
	case p.Daemon:
		return Daemons
	}
	return Normal
}

// Drainable reports whether a drain removes the pod.
func (p *Pod) Drainable() bool { return !p.Static && !p.Terminal && !p.Tolerant }

func (p *Pod) waitedFor(now time.Time) bool {
	return p.Drainable() && (p.Ends.IsZero() || now.Before(p.Ends.Add(Stuck)))
}

// Deletion is a pod to be deleted directly, whatever its PodDisruptionBudget says.
type Deletion struct {
	Key   model.PodKey
	Grace time.Duration
}

// Why is the reason for waiting for a pod.
type Why string

// Reasons to wait.
const (
	Ending          Why = "it is terminating"
	EvictionBlocked Why = "karpenter.sh/do-not-disrupt"
	Refused         Why = "its eviction was refused"
	AwaitingSurge   Why = "another pod of its Deployment starts first"
	EarlierGroup    Why = "other pods leave first"
)

// Waiting is a pod that the drain waits for.
type Waiting struct {
	Key model.PodKey
	Why Why
}

// Result is what to do now. Lists are sorted by namespace and name.
type Result struct {
	Evict   []model.PodKey
	Delete  []Deletion
	Waiting []Waiting
	// Next is when something changes through time alone; zero = never.
	Next time.Time
	// Done reports that no pod is left to wait for.
	Done bool
}

// Step decides what happens to the pods of a Node now. A zero deadline means that the drain may take forever.
//
// Groups leave one after the other; a pod whose grace period would reach beyond the deadline is deleted at once,
// whatever its group, budget or do-not-disrupt.
func Step(now, deadline time.Time, pods []Pod) Result {
	left := make([]*Pod, 0, len(pods))
	for i := range pods {
		if pods[i].waitedFor(now) {
			left = append(left, &pods[i])
		}
	}
	slices.SortFunc(left, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name),
			cmp.Compare(a.Key.UID, b.Key.UID))
	})
	r := Result{Done: len(left) == 0}
	if r.Done {
		return r
	}
	active := slices.MinFunc(left, func(a, b *Pod) int { return cmp.Compare(a.Group(), b.Group()) }).Group()
	for _, p := range left {
		r.decide(p, now, deadline, active)
	}
	return r
}

func (r *Result) decide(p *Pod, now, deadline time.Time, active Group) {
	if overdue(p, now, deadline) {
		r.Delete = append(r.Delete, Deletion{p.Key, max(deadline.Sub(now), minGrace)})
		return
	}
	if !deadline.IsZero() && p.Ends.IsZero() {
		r.wake(now, deadline.Add(-p.Grace))
	}
	switch {
	case !p.Ends.IsZero():
		r.wait(p, Ending)
		r.wake(now, p.Ends.Add(Stuck))
	case p.Group() != active:
		r.wait(p, EarlierGroup)
	case now.Before(p.BlockedUntil):
		r.wait(p, EvictionBlocked)
		r.wake(now, p.BlockedUntil)
	case now.Before(p.NotBefore) && p.Surging:
		r.wait(p, AwaitingSurge)
		r.wake(now, p.NotBefore)
	case now.Before(p.NotBefore):
		r.wait(p, Refused)
		r.wake(now, p.NotBefore)
	default:
		r.Evict = append(r.Evict, p.Key)
	}
}

// overdue reports whether only a direct deletion ends the pod in time: its grace period, or a deletion that was
// requested with more grace than is left, reaches beyond the deadline.
func overdue(p *Pod, now, deadline time.Time) bool {
	switch {
	case deadline.IsZero():
		return false
	case p.Ends.IsZero():
		return !now.Before(deadline.Add(-p.Grace))
	}
	shortest := deadline
	if soonest := now.Add(minGrace); soonest.After(shortest) {
		shortest = soonest
	}
	// The API keeps whole seconds: an end within the same second cannot be improved on.
	return p.Ends.Sub(shortest) >= time.Second
}

func (r *Result) wait(p *Pod, why Why) { r.Waiting = append(r.Waiting, Waiting{p.Key, why}) }

func (r *Result) wake(now, at time.Time) {
	if at.After(now) && (r.Next.IsZero() || at.Before(r.Next)) {
		r.Next = at
	}
}
