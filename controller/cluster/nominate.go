package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// nominated is how long a machine stays needed after the last plan that gave a pod a place there, and how long the successor of a pod that
// was evicted is waited for: between the two there is an instant in which nobody waits (reference karpenter.md §8.2, at least 10 s).
const nominated = 10 * time.Second

// nominees are the machines that plans put pods on, by the names that snapshots have for them: zero while the newest plan
// does, else the end of the time for which they still count.
type nominees map[string]time.Time

// Nominate says on which machines the newest plan places pods, by their names in the snapshot, and which pods that wait have their
// place on a machine that is yet to be ready, by the machine's claim.
func (w *World) Nominate(names map[string]bool, promised map[model.PodKey]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.promised, promised) {
		w.promised, w.promisedOn, w.out.pending = promised, nil, nil
	}
	now := w.clock.Now()
	if w.nominees == nil {
		w.nominees = nominees{}
	}
	for name, until := range w.nominees {
		switch {
		case names[name]:
		case until.IsZero():
			w.nominees[name] = now.Add(nominated)
			w.machines.stale = true
		case !now.Before(until):
			delete(w.nominees, name)
		}
	}
	for name := range names {
		w.nominees[name] = time.Time{}
	}
}

// Promised are the pods that have their place on the claim's machine by the newest plan, by namespace and name.
func (w *World) Promised(claim string) []model.PodKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.promisedOn == nil {
		w.promisedOn = map[string][]model.PodKey{}
		for pod, on := range w.promised {
			w.promisedOn[on] = append(w.promisedOn[on], pod)
		}
		for _, pods := range w.promisedOn {
			slices.SortFunc(pods, func(a, b model.PodKey) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
		}
	}
	return w.promisedOn[claim]
}

// nominated is the machine on which a pod that waits has its place, by the name that snapshots have for it; "" for none. What no plan
// of this process says is said by the pod, as long as the Node is not ready: a former one nominated it.
func (w *World) nominated(p *pod) string {
	if claim, ok := w.promised[p.Key]; ok {
		if m := w.machines.ofClaim(claim); m != nil {
			return m.name()
		}
		return ""
	}
	if o := w.podObjects.live[types.NamespacedName{Namespace: p.Key.Namespace, Name: p.Key.Name}]; o != nil {
		if m := w.machines.nodes[o.Status.NominatedNodeName]; m != nil && m.base.State == model.Registered {
			return m.name()
		}
	}
	return ""
}
