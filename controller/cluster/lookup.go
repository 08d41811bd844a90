package cluster

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Claim is a NodeClaim by name, nil if there is none.
func (w *World) Claim(name string) *karpv1.NodeClaim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claims.live[clusterKey(name)]
}

// Claims is all NodeClaims, by name.
func (w *World) Claims() []*karpv1.NodeClaim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return byName(w.claims.live)
}

// ClaimByProviderID is the NodeClaim with this status.providerID, nil if there is none; the first by name of several.
func (w *World) ClaimByProviderID(id string) *karpv1.NodeClaim {
	w.mu.Lock()
	defer w.mu.Unlock()
	if names := slices.Sorted(maps.Keys(w.machines.claimsOf[id])); len(names) > 0 {
		return w.claims.live[clusterKey(names[0])]
	}
	return nil
}

// NodePool is a NodePool by name, nil if there is none.
func (w *World) NodePool(name string) *karpv1.NodePool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pools.live[clusterKey(name)]
}

// NodePools is all NodePools, by name.
func (w *World) NodePools() []*karpv1.NodePool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return byName(w.pools.live)
}

// Node is a Node by name, nil if there is none.
func (w *World) Node(name string) *corev1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodeObjects.live[clusterKey(name)]
}

// NodesByProviderID is the Nodes with this spec.providerID, by name.
func (w *World) NodesByProviderID(id string) []*corev1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(w.machines.nodesOf[id])) {
		out = append(out, w.nodeObjects.live[clusterKey(name)])
	}
	return out
}

// PodsOnNode is the pods bound to a node, by namespace and name, terminal ones included.
func (w *World) PodsOnNode(node string) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.places[node]
	out := make([]*corev1.Pod, 0, len(at.pods))
	for key := range at.pods {
		out = append(out, w.podObjects.live[key])
	}
	slices.SortFunc(out, compareNames)
	return out
}

// Pods is all pods of a namespace, by name.
func (w *World) Pods(namespace string) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*corev1.Pod
	for key, pod := range w.podObjects.live {
		if key.Namespace == namespace {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, compareNames)
	return out
}

// Pod is a pod by namespace and name, nil if there is none.
func (w *World) Pod(key types.NamespacedName) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.podObjects.live[key]
}

// PoolUsage is the capacity of all machines of a pool and their number, those in flight or going included.
func (w *World) PoolUsage(pool string) (model.Resources, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh(w.clock.Now())
	u := w.out.usage[pool]
	return u.resources, u.nodes
}

// Machine is what a snapshot taken now says of the machine of a claim, and whether there is one.
func (w *World) Machine(claim string) (model.Node, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refresh(w.clock.Now())
	if m := w.machines.ofClaim(claim); m != nil {
		return m.full, true
	}
	return model.Node{}, false
}

// Ending reports whether deletion of a claim was asked for and the watch has not shown it yet.
func (w *World) Ending(claim *karpv1.NodeClaim) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ending := w.ending[claim.UID]
	return ending
}

func byName[T client.Object](live map[types.NamespacedName]T) []T {
	return slices.SortedFunc(maps.Values(live), compareNames)
}

func compareNames[T client.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
