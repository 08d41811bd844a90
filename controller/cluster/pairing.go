package cluster

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	facts "github.com/nodeless/nodeless/catalog"
)

// join makes one record of the first Node and the first NodeClaim with a provider ID, and a separate record of every
// other one.
func (ns *nodes) join(id string) {
	if id == "" {
		return
	}
	names, claims := slices.Sorted(maps.Keys(ns.nodesOf[id])), slices.Sorted(maps.Keys(ns.claimsOf[id]))
	for i, name := range names {
		var claim *karpv1.NodeClaim
		if i == 0 && len(claims) > 0 {
			claim = ns.objects.claims.live[clusterKey(claims[0])]
		}
		if m := ns.byName[name]; m != nil && m.claim != claim {
			m.claim = claim
			ns.touch(m)
		}
	}
	for i, name := range claims {
		_, unpaired := ns.unpaired[name]
		switch {
		case i == 0 && len(names) > 0 && unpaired:
			delete(ns.unpaired, name)
			ns.ordered, ns.stale = nil, true
		case i > 0 || len(names) == 0:
			if claim := ns.objects.claims.live[clusterKey(name)]; claim != nil {
				ns.unpair(claim)
			}
		}
	}
}

// unpair gives the NodeClaim a record of its own.
func (ns *nodes) unpair(o *karpv1.NodeClaim) {
	m := ns.unpaired[o.Name]
	if m == nil {
		m = &node{}
		ns.unpaired[o.Name], ns.ordered = m, nil
		ns.touch(m)
	}
	m.claim = o
}

// setID records the provider ID of a Node or claim, "" for none, and returns the previous one.
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

// setInstance indexes a claim by its instance ID; providerID is "" for a claim that is gone.
func (ns *nodes) setInstance(before, providerID string) {
	if before != providerID && before != "" && len(ns.claimsOf[before]) == 0 {
		delete(ns.byInstance, facts.InstanceID(before))
	}
	if providerID != "" {
		ns.byInstance[facts.InstanceID(providerID)] = providerID
	}
}

// ofClaim returns the record of a claim, nil if the claim is not known.
func (ns *nodes) ofClaim(claim string) *node {
	if m := ns.unpaired[claim]; m != nil {
		return m
	}
	for name := range ns.nodesOf[ns.claimID[claim]] {
		if m := ns.byName[name]; m != nil && m.claim != nil && m.claim.Name == claim {
			return m
		}
	}
	return nil
}

// ClaimByProviderID returns the NodeClaim with this status.providerID, the first by name if there are several; nil if
// there is none.
func (ns *nodes) ClaimByProviderID(id string) *karpv1.NodeClaim {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.claimByProviderID(id)
}

func (ns *nodes) claimByProviderID(id string) *karpv1.NodeClaim {
	if names := slices.Sorted(maps.Keys(ns.claimsOf[id])); len(names) > 0 {
		return ns.objects.claims.live[clusterKey(names[0])]
	}
	return nil
}

// ClaimByInstanceID returns the NodeClaim of an instance, such as i-0123456789abcdef0; nil if there is none.
func (ns *nodes) ClaimByInstanceID(id string) *karpv1.NodeClaim {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.claimByProviderID(ns.byInstance[id])
}

// NodesByProviderID returns the Nodes with this spec.providerID, by name.
func (ns *nodes) NodesByProviderID(id string) []*corev1.Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	var out []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(ns.nodesOf[id])) {
		out = append(out, ns.objects.nodes.live[clusterKey(name)])
	}
	return out
}

// order lists the records by name.
func (ns *nodes) order() {
	if ns.ordered == nil {
		ns.ordered = slices.AppendSeq(slices.Collect(maps.Values(ns.byName)), maps.Values(ns.unpaired))
		slices.SortFunc(ns.ordered, func(a, b *node) int { return cmp.Compare(a.name(), b.name()) })
	}
}

func (m *node) name() string {
	if m.object != nil {
		return m.object.Name
	}
	return m.claim.Name
}
