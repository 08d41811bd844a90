package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// forgetAfter is how long a deleted object's UID is remembered: longer than any event can be late.
const forgetAfter = 10 * time.Minute

// table holds the newest known state of each object of one kind, in whatever order events arrive. The zero value is
// ready to use.
type table[T client.Object] struct {
	live   map[types.NamespacedName]T
	gone   map[types.UID]time.Time // deleted; later events about them are late
	sorted []T                     // live, by name; nil = to be sorted
}

func keyOf(o client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// put keeps the object unless it is outdated, and reports whether it was kept. A different object of the same name
// replaces the previous one.
func (t *table[T]) put(o T, now time.Time) bool {
	if _, gone := t.gone[o.GetUID()]; gone && o.GetUID() != "" {
		return false
	}
	key := keyOf(o)
	if old, ok := t.live[key]; ok {
		before, after := version(old), version(o)
		same := old.GetUID() == o.GetUID()
		if before > 0 && after > 0 && (after < before || same && after == before) {
			return false
		}
		if !same {
			t.bury(old.GetUID(), now)
		}
	}
	if t.live == nil {
		t.live = map[types.NamespacedName]T{}
	}
	t.live[key], t.sorted = o, nil
	return true
}

// drop records that the object was deleted, and reports whether it was known.
func (t *table[T]) drop(o T, now time.Time) bool {
	t.bury(o.GetUID(), now)
	key := keyOf(o)
	if old, ok := t.live[key]; !ok || old.GetUID() != o.GetUID() {
		return false
	}
	delete(t.live, key)
	t.sorted = nil
	return true
}

func (t *table[T]) bury(uid types.UID, now time.Time) {
	if uid == "" {
		return
	}
	if len(t.gone) > 0 && len(t.gone)%4096 == 0 {
		for u, at := range t.gone {
			if now.Sub(at) > forgetAfter {
				delete(t.gone, u)
			}
		}
	}
	if t.gone == nil {
		t.gone = map[types.UID]time.Time{}
	}
	t.gone[uid] = now
}

// version returns an object's resource version as a number, 0 if it has none. Since 1.35, Kubernetes guarantees that
// resource versions can be compared within a kind.
func version(o client.Object) uint64 {
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// objects holds the newest known state of every object.
type objects struct {
	*hub
	pods        table[*corev1.Pod]
	nodes       table[*corev1.Node]
	claims      table[*karpv1.NodeClaim]
	pools       table[*karpv1.NodePool]
	daemonSets  table[*appsv1.DaemonSet]
	limitRanges table[*corev1.LimitRange]
	namespaces  table[*corev1.Namespace]

	classKinds func() []schema.GroupKind // nil = all

	list []model.Namespace // of snapshots, by name; nil = to be made
}

// Claim returns a NodeClaim by name, nil if there is none.
func (os *objects) Claim(name string) *karpv1.NodeClaim {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.claims.live[clusterKey(name)]
}

// Claims returns all NodeClaims, by name.
func (os *objects) Claims() []*karpv1.NodeClaim {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.claims.byName()
}

// NodePool returns a NodePool by name, nil if there is none.
func (os *objects) NodePool(name string) *karpv1.NodePool {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.pools.live[clusterKey(name)]
}

// NodePools returns all NodePools, by name.
func (os *objects) NodePools() []*karpv1.NodePool {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.pools.byName()
}

// Node returns a Node by name, nil if there is none.
func (os *objects) Node(name string) *corev1.Node {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.nodes.live[clusterKey(name)]
}

// Pods returns all pods of a namespace, by name.
func (os *objects) Pods(namespace string) []*corev1.Pod {
	os.mu.Lock()
	defer os.mu.Unlock()
	var out []*corev1.Pod
	for key, pod := range os.pods.live {
		if key.Namespace == namespace {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, compareNames)
	return out
}

// Pod returns a pod by namespace and name, nil if there is none.
func (os *objects) Pod(key types.NamespacedName) *corev1.Pod {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.pods.live[key]
}

// byName returns the objects by name. The slice is the caller's own.
func (t *table[T]) byName() []T {
	if t.sorted == nil {
		t.sorted = slices.SortedFunc(maps.Values(t.live), compareNames)
	}
	return slices.Clone(t.sorted)
}

func compareNames[T client.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

func (os *objects) namespaceChanged(*corev1.Namespace) {
	os.list = nil
	os.poke()
}

// renderNamespaces lists the namespaces by name.
func (os *objects) renderNamespaces() []model.Namespace {
	if os.list == nil {
		os.list = make([]model.Namespace, 0, len(os.namespaces.live))
		for _, ns := range os.namespaces.live {
			os.list = append(os.list, translate.Namespace(ns))
		}
		slices.SortFunc(os.list, func(a, b model.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	}
	return os.list
}
