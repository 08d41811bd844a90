// Package cluster turns watch events into immutable snapshots. It is the single owner of mutable cluster state:
// everybody else holds a Snapshot, or objects that nobody changes.
//
// What arrives may come late, twice or out of order: an object's state is the one with the highest resource version,
// and an object that was seen deleted never comes back. The same objects give the same snapshot.
package cluster

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Options are what a State needs. All fields have a default.
type Options struct {
	Clock clock.Clock      // default the real one
	Names *translate.Names // default an own table
	// Overlays has Attach watch NodeOverlays too.
	Overlays bool
	// NoStatic leaves pools with spec.replicas alone: they neither gain nor lose nodes.
	NoStatic bool
	// ReadFailures reads failing launches from the status of NodePools, for a State that launches nothing itself.
	ReadFailures bool
}

// State is the cluster as far as it is known. Each part owns what its name says; all share the lock, the clock and
// the change signal of hub. Exported methods lock; unexported ones are called with the lock held. All exported
// methods are safe for concurrent use. Objects that State hands out are shared with the informers: do not change
// them.
type State struct {
	*hub
	*objects      // the newest known state of every object
	*nodes        // Nodes paired with their NodeClaims
	*pods         // waiting and bound pods with their shapes
	*pools        // what NodePools may launch now
	*offerings    // back-off of offerings without capacity
	*failures     // back-off of pools whose launches fail
	*pauses       // pools whose nodes are not replaced for now
	*overlaid     // what NodeOverlays change
	*nominations  // where the newest plan places pods
	*successors   // pods expected in place of evicted ones
	*placeholders // capacity to be kept free
	daemons       *daemons
	shapes        *shapes

	names         *translate.Names
	watchOverlays bool

	out   rendered
	alarm alarm
}

// New returns an empty State.
func New(o Options) *State {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Names == nil {
		o.Names = translate.NewNames()
	}
	h := &hub{clock: o.Clock, changed: make(chan struct{}, 1)}
	objects := newObjects(h)
	nodes := newNodes(h, objects)
	shapes := newShapes()
	successors := newSuccessors(h, nodes, shapes)
	pods := newPods(h, objects, nodes, shapes, newStorage(h, nodes, o.Names), newBudgets(h, objects, nodes),
		newJobs(nodes), newMissingDaemons(h, nodes), successors)
	offerings, catalogs := newOfferings(h), map[cloud.ClassRef]catalog{}
	failures, pauses := newFailures(h, o.ReadFailures), newPauses(h)
	overlaid := newOverlaid(h, objects, nodes, o.Names, catalogs, offerings)
	return &State{
		hub: h, objects: objects, nodes: nodes, pods: pods, offerings: offerings, failures: failures, pauses: pauses,
		overlaid:    overlaid,
		pools:       newPools(h, objects, nodes, o.Names, catalogs, offerings, failures, pauses, overlaid, o.NoStatic),
		nominations: newNominations(h, objects, nodes), successors: successors, placeholders: newPlaceholders(h, pods),
		daemons: newDaemons(h, objects, nodes, o.Names), shapes: shapes, names: o.Names, watchOverlays: o.Overlays,
	}
}

// hub is what all parts of a State share.
type hub struct {
	mu      sync.Mutex // guards every part
	clock   clock.Clock
	changed chan struct{}

	stalePending bool // the pending pods of the last snapshot have changed
}

// Changed has a value after something that matters to decisions changed. Many changes may give one value.
func (h *hub) Changed() <-chan struct{} { return h.changed }

func (h *hub) poke() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Names is the table of resource names that snapshots use.
func (s *State) Names() *translate.Names { return s.names }

// Update takes over an object: a Pod, Node, NodeClaim, NodePool, DaemonSet, LimitRange, Namespace, NodeOverlay,
// PodDisruptionBudget, PersistentVolumeClaim, PersistentVolume, StorageClass or CSINode. The object is kept: do not
// change it.
func (s *State) Update(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	switch o := o.(type) {
	case *corev1.Pod:
		s.pods.updatePod(o, now)
	case *corev1.Node:
		s.nodes.updateNode(o, now)
	case *karpv1.NodeClaim:
		delete(s.nodes.written, o.UID)
		s.nodes.updateClaim(o, now)
	case *karpv1.NodePool:
		s.pools.updatePool(o, now)
	case *appsv1.DaemonSet:
		s.daemons.updateDaemonSet(o, now)
	case *corev1.LimitRange:
		s.daemons.updateLimitRange(o, now)
	case *corev1.Namespace:
		s.objects.updateNamespace(o, now)
	case *v1alpha1.NodeOverlay:
		s.overlaid.updateOverlay(o, now)
	case *corev1.PersistentVolumeClaim:
		updateStorage(s.pods, &s.storage.claims, claimKind, o, now)
	case *corev1.PersistentVolume:
		updateStorage(s.pods, &s.storage.volumes, volumeKind, o, now)
	case *storagev1.StorageClass:
		updateStorage(s.pods, &s.storage.classes, classKind, o, now)
	case *storagev1.CSINode:
		s.storage.updateCSINode(o, now)
	case *policyv1.PodDisruptionBudget:
		s.budgets.updateBudget(o, s.pods.all, now)
	}
}

// Delete drops an object that is gone for good.
func (s *State) Delete(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	switch o := o.(type) {
	case *corev1.Pod:
		s.pods.deletePod(o, now)
	case *corev1.Node:
		if s.nodes.deleteNode(o, now) {
			s.pods.dropPlace(o.Name)
		}
	case *karpv1.NodeClaim:
		s.nodes.deleteClaim(o, now)
	case *karpv1.NodePool:
		s.pools.deletePool(o, now)
	case *v1alpha1.NodeOverlay:
		s.overlaid.deleteOverlay(o, now)
	case *appsv1.DaemonSet:
		if s.objects.daemonSets.drop(o, now) {
			s.daemons.daemonsChanged()
		}
	case *corev1.LimitRange:
		if s.objects.limitRanges.drop(o, now) {
			s.daemons.daemonsChanged()
		}
	case *corev1.Namespace:
		s.objects.deleteNamespace(o, now)
	case *corev1.PersistentVolumeClaim:
		deleteStorage(s.pods, &s.storage.claims, claimKind, o, now)
	case *corev1.PersistentVolume:
		deleteStorage(s.pods, &s.storage.volumes, volumeKind, o, now)
	case *storagev1.StorageClass:
		deleteStorage(s.pods, &s.storage.classes, classKind, o, now)
	case *storagev1.CSINode:
		s.storage.deleteCSINode(o, now)
	case *policyv1.PodDisruptionBudget:
		s.budgets.deleteBudget(o, now)
	}
}
