package view

import (
	"cmp"
	"slices"
	"time"
	"unique"
)

// Revision is what the pods that a workload creates from one template have in common.
type Revision struct {
	Workload Object // a Deployment, StatefulSet or DaemonSet
	Hash     string // the label by which Kubernetes distinguishes its templates
}

// Rollout is when a workload began to create pods of a revision, judging by the pods that were seen.
type Rollout struct {
	Revision
	At time.Time
}

// mostRollouts is how many revisions are kept; a new one replaces the one that began first.
const mostRollouts = 10_000

// rolled notes the revision of a pod. A pod of a known revision that is created later, after a move or a scale-up,
// changes nothing.
func (t *podTable) rolled(p *Pod) {
	if p.Revision == (unique.Handle[Revision]{}) {
		return
	}
	began, known := t.rollouts[p.Revision]
	if known && !p.Created.Before(began) {
		return
	}
	if !known && len(t.rollouts) >= mostRollouts {
		var oldest unique.Handle[Revision]
		began = p.Created
		for r, at := range t.rollouts {
			if at.Before(began) {
				oldest, began = r, at
			}
		}
		if oldest == (unique.Handle[Revision]{}) {
			return // it began before all others
		}
		delete(t.rollouts, oldest)
	}
	t.rollouts[p.Revision] = p.Created
}

// Rollouts returns the rollouts that began within a span, in order.
func (m *Model) Rollouts(in Span) []Rollout {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Rollout
	for r, at := range m.rollouts {
		if !at.Before(in.From) && at.Before(in.To) {
			out = append(out, Rollout{r.Value(), at})
		}
	}
	slices.SortFunc(out, func(a, b Rollout) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Workload.Namespace, b.Workload.Namespace),
			cmp.Compare(a.Workload.Name, b.Workload.Name), cmp.Compare(a.Hash, b.Hash))
	})
	return out
}
