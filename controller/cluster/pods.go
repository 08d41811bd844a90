package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// pod is a waiting or a bound pod.
type pod struct {
	translate.Pod
	generation int64
	shape      *shape
	needs      []need // objects that the shape depends on, beside the pod
	budgets    []*budget
	unready    bool // the pod says that it is not ready; kept up to date while a budget depends on it
}

// pods are the waiting and the bound pods.
type pods struct {
	*hub
	objects     *objects
	nodes       *nodes
	shapes      *shapes
	storage     *storage
	budgets     *budgets
	jobs        *jobs
	missing     *missingDaemons
	successors  *successors
	owners      *owners
	nominations *nominations
	daemons     *daemons

	placeholders *placeholders
	all          map[types.NamespacedName]*pod
	waiting      []*pod            // by Created, Namespace, Name
	places       map[string]*place // by node name, including nodes not known yet
}

// place holds the pods of a node.
type place struct {
	pods map[types.NamespacedName]*pod
	left time.Time // when a pod that counts was last seen to leave
}

func comparePods(a, b *pod) int {
	return cmp.Or(a.Created.Compare(b.Created), compareKeys(a, b))
}

func compareKeys(a, b *pod) int {
	return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name),
		cmp.Compare(a.Key.UID, b.Key.UID))
}

// updatePod takes in a new state of a pod.
func (ps *pods) updatePod(o *corev1.Pod, now time.Time) {
	key := keyOf(o)
	before := ps.objects.pods.live[key]
	if !ps.objects.pods.put(o, now) {
		return
	}
	ps.owners.recount(before, o)
	old, info := ps.all[key], ps.storage.spread.config.ReadPod(o)
	ps.missing.noteLacking(key, info.WaitsFor(), &info)
	sameSpec := old != nil && o.Generation != 0 && old.generation == o.Generation && old.Key == info.Key &&
		maps.Equal(before.Labels, o.Labels) && !old.Resizing && !info.Resizing && len(o.Spec.ResourceClaims) == 0
	if sameSpec && old.Pod == info {
		ps.budgets.readiness(old, o)
		return
	}
	ps.placeholders.arrived(before, o)
	next := &pod{Pod: info, generation: o.Generation, unready: unready(o)}
	if info.Waiting || info.Node != "" {
		if sameSpec {
			next.shape, next.needs = ps.shapes.hold(old.shape), old.needs
		} else {
			var m model.Shape
			m, next.needs = ps.storage.shapeOf(o)
			next.shape = ps.shapes.intern(m)
		}
	}
	ps.replace(key, old, next, now)
	ps.daemons.podCame(o, next)
}

// waits reports whether the pod waits for a node.
func (ps *pods) waits(key model.PodKey) bool {
	p := ps.all[types.NamespacedName{Namespace: key.Namespace, Name: key.Name}]
	return p != nil && p.Key == key && p.Node == ""
}

// replace puts a pod in the place of the one of that name, nil if there is none. A pod without a shape neither waits
// nor is bound.
func (ps *pods) replace(key types.NamespacedName, old, next *pod, now time.Time) {
	other := old == nil || old.Key != next.Key
	if old != nil {
		if next.Deleting || other {
			ps.successors.expectSuccessor(old, now)
		}
		ps.unlink(key, old, other || next.shape == nil, now)
	}
	if other {
		ps.successors.succeed(next.Maker, now)
		ps.owners.arrived(ps.nominations, next)
	}
	if next.shape != nil {
		ps.link(key, next)
		ps.jobs.noteRun(old, next, now)
	}
	if next.shape != nil || old != nil {
		ps.poke()
	}
}

func (ps *pods) deletePod(o *corev1.Pod, now time.Time) {
	key, before := keyOf(o), ps.objects.pods.live[keyOf(o)]
	if !ps.objects.pods.drop(o, now) {
		return
	}
	ps.owners.recount(before, nil)
	ps.missing.noteLacking(key, "", nil)
	if old := ps.all[key]; old != nil {
		ps.successors.expectSuccessor(old, now)
		ps.unlink(key, old, true, now)
		ps.poke()
	}
}

// link adds a pod to the waiting pods or to its node.
func (ps *pods) link(key types.NamespacedName, p *pod) {
	ps.all[key] = p
	ps.storage.use(p)
	ps.sharersChanged(p)
	ps.jobs.join(p)
	ps.budgets.cover(p, ps.objects.pods.live[key].Labels)
	if p.Node == "" {
		i, _ := slices.BinarySearchFunc(ps.waiting, p, comparePods)
		ps.waiting = slices.Insert(ps.waiting, i, p)
		ps.stalePending = true
		return
	}
	at := ps.places[p.Node]
	if at == nil {
		at = &place{pods: map[types.NamespacedName]*pod{}}
		ps.places[p.Node] = at
	}
	at.pods[key] = p
	ps.nodes.touchPods(p.Node)
}

// dropPlace forgets a deleted node that has no pods.
func (ps *pods) dropPlace(node string) {
	if at := ps.places[node]; at != nil && len(at.pods) == 0 {
		delete(ps.places, node)
	}
}

// unlink removes a pod; gone says that it has left, not that it will be linked again in another state.
func (ps *pods) unlink(key types.NamespacedName, p *pod, gone bool, now time.Time) {
	delete(ps.all, key)
	ps.storage.unuse(p)
	if gone {
		ps.sharersChanged(p)
	}
	ps.jobs.leave(p)
	p.uncover()
	ps.shapes.release(p.shape)
	if p.Node == "" {
		if i, ok := slices.BinarySearchFunc(ps.waiting, p, comparePods); ok {
			ps.waiting = slices.Delete(ps.waiting, i, i+1)
		}
		ps.stalePending = true
		return
	}
	at := ps.places[p.Node]
	delete(at.pods, key)
	if gone && !p.Daemon() && !p.Terminal {
		at.left = now
	}
	if _, known := ps.nodes.byName[p.Node]; !known && len(at.pods) == 0 {
		delete(ps.places, p.Node)
	}
	ps.nodes.touchPods(p.Node)
}

// PodsOnNode returns the pods bound to a node, by namespace and name, including terminal ones.
func (ps *pods) PodsOnNode(node string) []*corev1.Pod {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	at := ps.places[node]
	if at == nil {
		return []*corev1.Pod{}
	}
	out := make([]*corev1.Pod, 0, len(at.pods))
	for key := range at.pods {
		out = append(out, ps.objects.pods.live[key])
	}
	slices.SortFunc(out, compareNames)
	return out
}
