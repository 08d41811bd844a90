package cluster

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// unconfirmed is how long the watch may take to show a claim that this process wrote, or a deletion that it requested.
const unconfirmed = 30 * time.Second

// ObserveClaim makes the next snapshot include a claim that was just written or read, before the watch shows it. It
// ignores a claim that is not managed here. The claim is kept: do not change it.
func (ns *nodes) ObserveClaim(claim *karpv1.NodeClaim) {
	if !ns.objects.Manages(claim.Spec.NodeClassRef) {
		return
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	now := ns.clock.Now()
	_, known := ns.objects.claims.live[keyOf(claim)]
	if ns.updateClaim(claim, now) && !known {
		ns.written[claim.UID] = now
	}
}

// ObserveDeletion makes the next snapshot include the requested deletion of a claim, before the watch shows it.
func (ns *nodes) ObserveDeletion(claim *karpv1.NodeClaim) {
	ns.remove(claim, func() { ns.ending[claim.UID] = ns.clock.Now() })
}

// Expiring makes the node of a claim count as being removed, so that nodes for its pods are launched before it
// expires.
func (ns *nodes) Expiring(claim *karpv1.NodeClaim) {
	ns.remove(claim, func() { ns.expiring[claim.UID] = true })
}

// remove records a known claim as one whose node is being removed.
func (ns *nodes) remove(claim *karpv1.NodeClaim, note func()) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if now, ok := ns.objects.claims.live[keyOf(claim)]; ok && now.UID == claim.UID {
		note()
		ns.touchClaim(claim.Name)
		ns.poke()
	}
}

// ForgetClaim drops a claim that does not exist according to the API server.
func (ns *nodes) ForgetClaim(claim *karpv1.NodeClaim) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.deleteClaim(claim, ns.clock.Now())
}

// Ending reports whether the deletion of a claim was requested and the watch has not shown it yet.
func (ns *nodes) Ending(claim *karpv1.NodeClaim) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	_, ending := ns.ending[claim.UID]
	return ending
}

// Unconfirmed returns the claims that this process wrote and that the watch has not shown in time: it is late, or they
// are gone. The caller reads them from the API server, then calls ObserveClaim or ForgetClaim. Until then they count,
// and each is returned again after the same time.
func (ns *nodes) Unconfirmed() []*karpv1.NodeClaim {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if len(ns.written) == 0 {
		return nil
	}
	var out []*karpv1.NodeClaim
	now := ns.clock.Now()
	for _, c := range ns.objects.claims.byName() {
		if at, ok := ns.written[c.UID]; ok && now.Sub(at) >= unconfirmed {
			ns.written[c.UID] = now
			out = append(out, c)
		}
	}
	return out
}

// expire drops the requested deletions that the watch did not show in time.
func (ns *nodes) expire(now time.Time) {
	for uid, at := range ns.ending {
		if now.Sub(at) < unconfirmed {
			continue
		}
		delete(ns.ending, uid)
		for _, c := range ns.objects.claims.live {
			if c.UID == uid {
				ns.touchClaim(c.Name)
			}
		}
	}
}
