package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// node is a Node, a NodeClaim, or both if they belong to the same instance.
type node struct {
	object *corev1.Node
	claim  *karpv1.NodeClaim

	base     model.Node // translated, without pods
	notReady bool
	full     model.Node // with pods
	pods     []*pod     // parallel to full.Pods
	moving   []*pod     // must leave; no longer among pods
	shapes   int        // epoch of the shape indices in full.Pods
	wake     time.Time  // when full changes without an event, zero if it does not

	staleBase, stalePods bool
}

// nodes pairs Nodes with NodeClaims: a Node and a NodeClaim with the same provider ID are one record. If several have
// the same ID, the first of each by name are paired.
type nodes struct {
	*hub
	objects  *objects
	byName   map[string]*node        // by Node name
	unpaired map[string]*node        // NodeClaims that no Node belongs to, by claim name
	written  map[types.UID]time.Time // NodeClaims that this process wrote and the watch has not shown, since when
	ending   map[types.UID]time.Time // NodeClaims whose deletion was requested and the watch has not shown, since when
	expiring map[types.UID]bool      // NodeClaims that expire before another node for their pods could boot

	nodesOf, claimsOf map[string]map[string]bool // by provider ID: names
	nodeID, claimID   map[string]string          // by name: provider ID
	byInstance        map[string]string          // by instance ID: provider ID

	stale   bool // some record is stale
	ordered []*node
}

func (ns *nodes) touch(m *node) {
	if m != nil {
		m.staleBase, ns.stale = true, true
	}
}

func (ns *nodes) touchPods(node string) {
	if m := ns.byName[node]; m != nil {
		m.stalePods, ns.stale = true, true
	}
}

func (ns *nodes) touchClaim(claim string) { ns.touch(ns.ofClaim(claim)) }

func (ns *nodes) touchAll() {
	for _, m := range ns.byName {
		ns.touch(m)
	}
	for _, m := range ns.unpaired {
		ns.touch(m)
	}
}

func (ns *nodes) updateNode(o *corev1.Node, now time.Time) {
	old := ns.objects.nodes.live[keyOf(o)]
	if !ns.objects.nodes.put(o, now) {
		return
	}
	m := ns.byName[o.Name]
	if m == nil {
		m = &node{}
		ns.byName[o.Name], ns.ordered = m, nil
	}
	m.object = o
	if old != nil && !nodeMatters(old, o) {
		return
	}
	ns.touch(m)
	before := setID(ns.nodeID, ns.nodesOf, o.Name, o.Spec.ProviderID)
	ns.join(before)
	ns.join(o.Spec.ProviderID)
	ns.poke()
}

// deleteNode reports whether the Node was known.
func (ns *nodes) deleteNode(o *corev1.Node, now time.Time) bool {
	if !ns.objects.nodes.drop(o, now) {
		return false
	}
	delete(ns.byName, o.Name)
	ns.ordered, ns.stale = nil, true
	ns.join(setID(ns.nodeID, ns.nodesOf, o.Name, ""))
	ns.poke()
	return true
}

// updateClaim reports whether the claim was newer than the known one.
func (ns *nodes) updateClaim(o *karpv1.NodeClaim, now time.Time) bool {
	old := ns.objects.claims.live[keyOf(o)]
	if !ns.objects.claims.put(o, now) {
		return false
	}
	if old != nil && old.UID != o.UID {
		delete(ns.written, old.UID)
		delete(ns.ending, old.UID)
		delete(ns.expiring, old.UID)
	}
	before := setID(ns.claimID, ns.claimsOf, o.Name, o.Status.ProviderID)
	ns.setInstance(before, o.Status.ProviderID)
	ns.join(before)
	if o.Status.ProviderID == "" {
		ns.unpair(o)
	} else {
		ns.join(o.Status.ProviderID)
	}
	if m := ns.ofClaim(o.Name); m != nil {
		m.claim = o
	}
	if old == nil || claimMatters(old, o) {
		ns.touchClaim(o.Name)
		ns.poke()
	}
	return true
}

func (ns *nodes) deleteClaim(o *karpv1.NodeClaim, now time.Time) {
	delete(ns.written, o.UID)
	delete(ns.ending, o.UID)
	delete(ns.expiring, o.UID)
	if !ns.objects.claims.drop(o, now) {
		return
	}
	if _, unpaired := ns.unpaired[o.Name]; unpaired {
		delete(ns.unpaired, o.Name)
		ns.ordered, ns.stale = nil, true
	}
	before := setID(ns.claimID, ns.claimsOf, o.Name, "")
	ns.setInstance(before, "")
	ns.join(before)
	ns.poke()
}

// going reports whether the node is being removed: it is being deleted or about to expire, is a victim of a command,
// is being left by a migration, or is being reclaimed by the cloud.
func (ns *nodes) going(m *node) bool {
	return m.base.Deleting && m.object != nil && (m.base.Command != "" || ns.leaves(m))
}

// leaves reports whether the node is being removed for another cause than a command, which may yet be undone.
func (ns *nodes) leaves(m *node) bool {
	if m.object.DeletionTimestamp != nil || translate.Migrating(m.object) {
		return true
	}
	if m.claim == nil {
		return false
	}
	_, ending := ns.ending[m.claim.UID]
	_, _, interrupted := translate.Interrupted(m.claim)
	return ending || interrupted || ns.expiring[m.claim.UID] || m.claim.DeletionTimestamp != nil
}
