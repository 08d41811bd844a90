package cluster

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forgetAfter is how long a deleted object's UID is remembered: longer than any event can be late.
const forgetAfter = 10 * time.Minute

// table is the newest known state of each object of one kind, whatever order its events come in.
type table[T client.Object] struct {
	live map[types.NamespacedName]T
	gone map[types.UID]time.Time // deleted; an event about them is late
}

func newTable[T client.Object]() table[T] {
	return table[T]{live: map[types.NamespacedName]T{}, gone: map[types.UID]time.Time{}}
}

func keyOf(o client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// put keeps the object unless it is old news, and reports whether it was kept. A different object of the same name
// replaces the one before it.
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
	t.live[key] = o
	return true
}

// drop notes that the object is deleted for good, and reports whether it was known.
func (t *table[T]) drop(o T, now time.Time) bool {
	t.bury(o.GetUID(), now)
	key := keyOf(o)
	if old, ok := t.live[key]; !ok || old.GetUID() != o.GetUID() {
		return false
	}
	delete(t.live, key)
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
	t.gone[uid] = now
}

// version is an object's resource version as a number, 0 if it has none. Kubernetes promises since 1.35 that they can
// be compared within a kind.
func version(o client.Object) uint64 {
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}
