package status

import (
	"slices"

	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// A pool is judged by so many of its last launches, and by how many of them failed to become Nodes (karpenter.md §1.3).
const (
	lastLaunches   = 4
	failedLaunches = 2
)

// health is how the last launches of a pool went.
type health struct {
	pool     types.UID
	restored bool   // what an earlier process knew is among the outcomes
	outcomes []bool // oldest first; true: its Node was registered
	reason   string // of the last failure
	message  string
}

func (h *health) add(outcomes ...bool) {
	h.outcomes = append(h.outcomes, outcomes...)
	h.outcomes = h.outcomes[max(0, len(h.outcomes)-lastLaunches):]
}

// verdict is Unknown while there was no launch.
func (h *health) verdict() metav1.ConditionStatus {
	failed := 0
	for _, ok := range h.outcomes {
		if !ok {
			failed++
		}
	}
	switch {
	case len(h.outcomes) == 0:
		return metav1.ConditionUnknown
	case failed >= failedLaunches:
		return metav1.ConditionFalse
	}
	return metav1.ConditionTrue
}

// restore takes over what the condition says of launches that an earlier process saw: they came first.
func (h *health) restore(c *opstatus.Condition) {
	if h.restored {
		return
	}
	h.restored = true
	since := slices.Clone(h.outcomes)
	h.outcomes = nil
	switch {
	case c.IsTrue():
		h.add(true)
	case c.IsFalse():
		h.add(slices.Repeat([]bool{false}, failedLaunches)...)
		if h.reason == "" {
			h.reason, h.message = c.Reason, c.Message
		}
	}
	h.add(since...)
}

// healthOf is the health of a pool; k.mu is held.
func (k *Keeper) healthOf(name string, uid types.UID) *health {
	h := k.health[name]
	if h == nil || h.pool != uid {
		h = &health{pool: uid}
		k.health[name] = h
	}
	return h
}

// Registered notes whether the machine of a claim became a Node in time. Claims that their pool does not own do not count.
func (k *Keeper) Registered(claim *karpv1.NodeClaim, yes bool) {
	i := slices.IndexFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" })
	if i < 0 {
		return
	}
	owner := claim.OwnerReferences[i]
	k.mu.Lock()
	h := k.healthOf(owner.Name, owner.UID)
	h.add(yes)
	if !yes {
		h.reason, h.message = failure(claim)
	}
	k.mu.Unlock()
	k.pools.Add(owner.Name)
	if ref := translate.ClassRef(claim.Spec.NodeClassRef); ref.Name != "" {
		k.classes.Add(keyOf(ref)) // its condition says whether launches fail
	}
}

// failure is why a claim's machine did not become a Node.
func failure(claim *karpv1.NodeClaim) (reason, message string) {
	launched := claim.StatusConditions(opstatus.WithObservedOnly()).Get(karpv1.ConditionTypeLaunched)
	if launched == nil || launched.IsTrue() || launched.Reason == "" {
		return "RegistrationFailed", "Failed to register node"
	}
	return launched.Reason, launched.Message
}

// judgeHealth sets the condition NodeRegistrationHealthy. A pool or class that was changed has yet to prove itself.
func (k *Keeper) judgeHealth(pool *karpv1.NodePool) {
	const kind = karpv1.ConditionTypeNodeRegistrationHealthy
	conditions := pool.StatusConditions()
	was := pool.StatusConditions(opstatus.WithObservedOnly()).Get(kind)
	class := k.o.Classes.Get(translate.ClassRef(pool.Spec.Template.Spec.NodeClassRef))
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.healthOf(pool.Name, pool.UID)
	h.restore(was)
	if was != nil && (was.ObservedGeneration != pool.Generation || (class != nil && pool.Status.NodeClassObservedGeneration != class.Generation)) {
		h.outcomes = nil
		k.o.World.LaunchesAgain(pool.Name)
	}
	switch h.verdict() {
	case metav1.ConditionTrue:
		conditions.SetTrue(kind)
	case metav1.ConditionFalse:
		conditions.SetFalse(kind, h.reason, h.message)
	default:
		conditions.SetUnknown(kind)
	}
}
