package status

import (
	"slices"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// A pool is judged by its last lastLaunches launches, and by how many of them failed to become Nodes
// (sigs.k8s.io/karpenter/pkg/controllers/nodepool/registrationhealth).
const (
	lastLaunches   = 4
	failedLaunches = 2
)

// health is the outcome of a pool's last launches.
type health struct {
	restored bool   // the outcomes include what an earlier process knew
	outcomes []bool // oldest first; true: its Node was registered
	reason   string // of the last failure
	message  string
}

func (h *health) add(outcomes ...bool) {
	h.outcomes = append(h.outcomes, outcomes...)
	h.outcomes = h.outcomes[max(0, len(h.outcomes)-lastLaunches):]
}

// verdict returns the status of the condition: Unknown before the first launch.
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

// restore adds, before the known outcomes, what the condition says about launches that an earlier process saw.
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

// registered records whether the instance of a claim became a Node in time, and reports whether the claim's pool owns
// it.
func (p *poolReconciler) registered(claim *karpv1.NodeClaim, yes bool) bool {
	i := slices.IndexFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" })
	if i < 0 {
		return false
	}
	owner := claim.OwnerReferences[i]
	p.mu.Lock()
	s := p.stateOf(owner.Name, owner.UID)
	s.add(yes)
	if !yes {
		s.reason, s.message = failure(claim)
	}
	p.mu.Unlock()
	p.queue.Add(owner.Name)
	return true
}

// failure returns why a claim's instance did not become a Node.
func failure(claim *karpv1.NodeClaim) (reason, message string) {
	launched := conditions.Of(claim, karpv1.ConditionTypeLaunched)
	if launched == nil || launched.IsTrue() || launched.Reason == "" {
		return "RegistrationFailed", "Failed to register node"
	}
	return launched.Reason, launched.Message
}

// judgeHealth sets the condition NodeRegistrationHealthy. A changed pool or class has yet to prove itself; class
// may be nil.
func (p *poolReconciler) judgeHealth(pool *karpv1.NodePool, class *ec2v1.EC2NodeClass) {
	const kind = karpv1.ConditionTypeNodeRegistrationHealthy
	found, was := pool.StatusConditions(), conditions.Of(pool, kind)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stateOf(pool.Name, pool.UID)
	s.restore(was)
	if was != nil && (was.ObservedGeneration != pool.Generation ||
		(class != nil && pool.Status.NodeClassObservedGeneration != class.Generation)) {
		s.outcomes = nil
		p.o.Cluster.LaunchesAgain(pool.Name)
	}
	switch s.verdict() {
	case metav1.ConditionTrue:
		found.SetTrue(kind)
	case metav1.ConditionFalse:
		found.SetFalse(kind, s.reason, s.message)
	default:
		found.SetUnknown(kind)
	}
}
