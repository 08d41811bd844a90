package cluster

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// machine is a Node, a NodeClaim, or both if they are the same machine.
type machine struct {
	node  *corev1.Node
	claim *karpv1.NodeClaim

	base     model.Node // translated, without pods
	notReady bool
	full     model.Node // with pods
	pods     []*pod     // beside full.Pods
	moving   []*pod     // have to leave; no longer among pods
	shapes   int        // epoch of the shape indices in full.Pods
	wake     time.Time  // when full changes by itself, zero if it does not

	staleBase, stalePods bool
}

// machines are all machines. A Node and a NodeClaim with the same provider ID are one; of several with the same ID the
// first by name are.
type machines struct {
	nodes  map[string]*machine // by Node name
	flying map[string]*machine // claims that no Node belongs to, by claim name

	nodesOf, claimsOf map[string]map[string]bool // by provider ID: names
	nodeID, claimID   map[string]string          // by name: provider ID
	byMachine         map[string]string          // by the cloud's ID of a claim's machine: provider ID

	stale   bool // some machine is
	ordered []*machine
}

func newMachines() machines {
	return machines{
		nodes: map[string]*machine{}, flying: map[string]*machine{},
		nodesOf: map[string]map[string]bool{}, claimsOf: map[string]map[string]bool{},
		nodeID: map[string]string{}, claimID: map[string]string{}, byMachine: map[string]string{},
	}
}

func (ms *machines) touch(m *machine) {
	if m != nil {
		m.staleBase, ms.stale = true, true
	}
}

func (ms *machines) touchPods(node string) {
	if m := ms.nodes[node]; m != nil {
		m.stalePods, ms.stale = true, true
	}
}

func (ms *machines) touchClaim(claim string) { ms.touch(ms.ofClaim(claim)) }

func (ms *machines) touchAll() {
	for _, m := range ms.nodes {
		ms.touch(m)
	}
	for _, m := range ms.flying {
		ms.touch(m)
	}
}

// ofClaim is the machine of a claim, nil if the claim is not known.
func (ms *machines) ofClaim(claim string) *machine {
	if m := ms.flying[claim]; m != nil {
		return m
	}
	for node := range ms.nodesOf[ms.claimID[claim]] {
		if m := ms.nodes[node]; m != nil && m.claim != nil && m.claim.Name == claim {
			return m
		}
	}
	return nil
}

// setID notes the provider ID of a Node or claim, "" for none, and gives the one it had before.
func setID(ids map[string]string, of map[string]map[string]bool, name, id string) string {
	old := ids[name]
	if old == id {
		return old
	}
	if delete(of[old], name); len(of[old]) == 0 {
		delete(of, old)
	}
	if delete(ids, name); id == "" {
		return old
	}
	ids[name] = id
	if of[id] == nil {
		of[id] = map[string]bool{}
	}
	of[id][name] = true
	return old
}

func (w *World) updateNode(o *corev1.Node, now time.Time) {
	old := w.nodeObjects.live[keyOf(o)]
	if !w.nodeObjects.put(o, now) {
		return
	}
	ms := &w.machines
	m := ms.nodes[o.Name]
	if m == nil {
		m = &machine{}
		ms.nodes[o.Name], ms.ordered = m, nil
	}
	m.node = o
	if old != nil && !nodeMatters(old, o) {
		return
	}
	ms.touch(m)
	before := setID(ms.nodeID, ms.nodesOf, o.Name, o.Spec.ProviderID)
	w.join(before)
	w.join(o.Spec.ProviderID)
	w.poke()
}

func (w *World) deleteNode(o *corev1.Node, now time.Time) {
	if !w.nodeObjects.drop(o, now) {
		return
	}
	ms := &w.machines
	delete(ms.nodes, o.Name)
	ms.ordered, ms.stale = nil, true
	if at := w.places[o.Name]; len(at.pods) == 0 {
		delete(w.places, o.Name)
	}
	w.join(setID(ms.nodeID, ms.nodesOf, o.Name, ""))
	w.poke()
}

// updateClaim reports whether the claim was news.
func (w *World) updateClaim(o *karpv1.NodeClaim, now time.Time) bool {
	old := w.claims.live[keyOf(o)]
	if !w.claims.put(o, now) {
		return false
	}
	if old != nil && old.UID != o.UID {
		delete(w.written, old.UID)
		delete(w.ending, old.UID)
	}
	ms := &w.machines
	before := setID(ms.claimID, ms.claimsOf, o.Name, o.Status.ProviderID)
	ms.nameMachine(before, o.Status.ProviderID)
	w.join(before)
	if o.Status.ProviderID == "" {
		ms.fly(o)
	} else {
		w.join(o.Status.ProviderID)
	}
	if m := ms.ofClaim(o.Name); m != nil {
		m.claim = o
	}
	if old == nil || claimMatters(old, o) {
		ms.touchClaim(o.Name)
		w.poke()
	}
	return true
}

func (w *World) deleteClaim(o *karpv1.NodeClaim, now time.Time) {
	delete(w.written, o.UID)
	delete(w.ending, o.UID)
	if w.claims.drop(o, now) {
		w.removeClaim(o.Name)
	}
}

// removeClaim takes a claim that is no longer in the table off the machines.
func (w *World) removeClaim(name string) {
	ms := &w.machines
	if _, flying := ms.flying[name]; flying {
		delete(ms.flying, name)
		ms.ordered, ms.stale = nil, true
	}
	before := setID(ms.claimID, ms.claimsOf, name, "")
	ms.nameMachine(before, "")
	w.join(before)
	w.poke()
}

// fly makes the claim a machine of its own.
func (ms *machines) fly(o *karpv1.NodeClaim) {
	m := ms.flying[o.Name]
	if m == nil {
		m = &machine{}
		ms.flying[o.Name], ms.ordered = m, nil
		ms.touch(m)
	}
	m.claim = o
}

// join makes the first Node and the first claim of a provider ID one machine, and every other one of its own.
func (w *World) join(id string) {
	if id == "" {
		return
	}
	ms := &w.machines
	nodes, claims := slices.Sorted(maps.Keys(ms.nodesOf[id])), slices.Sorted(maps.Keys(ms.claimsOf[id]))
	for i, name := range nodes {
		var claim *karpv1.NodeClaim
		if i == 0 && len(claims) > 0 {
			claim = w.claims.live[clusterKey(claims[0])]
		}
		if m := ms.nodes[name]; m != nil && m.claim != claim {
			m.claim = claim
			ms.touch(m)
		}
	}
	for i, name := range claims {
		_, flying := ms.flying[name]
		switch {
		case i == 0 && len(nodes) > 0 && flying:
			delete(ms.flying, name)
			ms.ordered, ms.stale = nil, true
		case i > 0 || len(nodes) == 0:
			if claim := w.claims.live[clusterKey(name)]; claim != nil {
				ms.fly(claim)
			}
		}
	}
}
