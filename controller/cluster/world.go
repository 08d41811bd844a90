// Package cluster turns watch events into immutable snapshots. It is the single owner of mutable cluster state:
// everybody else holds a Snapshot, or objects that nobody changes.
//
// What arrives may come late, twice or out of order: an object's state is the one with the highest resource version,
// and an object that was seen deleted never comes back. The same objects give the same snapshot.
package cluster

import (
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Options are what a World needs. All fields have a default.
type Options struct {
	Clock clock.Clock      // default the real one
	Names *translate.Names // default an own table
	// Overlays has Attach watch NodeOverlays too.
	Overlays bool
	// NoStatic leaves pools with spec.replicas alone: they get no machines and lose none.
	NoStatic bool
	// ReadFailures: whose launches fail is what NodePools say, for a world that launches nothing itself.
	ReadFailures bool
}

// World is the cluster as far as it is known. All methods are safe for concurrent use. Objects it hands out are
// shared with the informers: do not change them.
type World struct {
	clock   clock.Clock
	names   *translate.Names
	changed chan struct{}

	mu sync.Mutex // guards all below

	podObjects  table[*corev1.Pod]
	nodeObjects table[*corev1.Node]
	claims      table[*karpv1.NodeClaim]
	pools       table[*karpv1.NodePool]
	daemonSets  table[*appsv1.DaemonSet]
	limitRanges table[*corev1.LimitRange]
	namespaces  table[*corev1.Namespace]
	storage     storage
	budgets     budgets

	pods    map[types.NamespacedName]*pod
	pending []*pod           // by Created, Namespace, Name
	places  map[string]place // by node name, also of nodes not known yet
	shapes  shapes
	virtual map[types.NamespacedName]*virtual // by who wants the room

	machines   machines
	written    map[types.UID]time.Time // claims that we wrote and the watch has not shown, since when
	ending     map[types.UID]time.Time // claims whose deletion we asked for, since when
	nominees   nominees
	promised   map[model.PodKey]string   // claims of machines that are yet to be ready
	promisedOn map[string][]model.PodKey // by claim, nil = to be made
	successors successors
	jobs       jobs
	lacking    lacking
	failing    map[string]failing // by pool
	// readsFailures: NodePools say whose launches fail, not failing.
	readsFailures bool
	resting       map[string]time.Time // pools whose machines are not replaced, until when

	catalogs map[cloud.ClassRef]catalog
	overlays bool // are watched
	overlaid overlaid
	noStatic bool
	offers   offerings

	out   rendered
	alarm alarm
}

// New is an empty world.
func New(o Options) *World {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Names == nil {
		o.Names = translate.NewNames()
	}
	return &World{
		clock: o.Clock, names: o.Names, changed: make(chan struct{}, 1),
		podObjects: newTable[*corev1.Pod](), nodeObjects: newTable[*corev1.Node](), claims: newTable[*karpv1.NodeClaim](),
		pools: newTable[*karpv1.NodePool](), daemonSets: newTable[*appsv1.DaemonSet](), limitRanges: newTable[*corev1.LimitRange](),
		namespaces: newTable[*corev1.Namespace](), storage: newStorage(), budgets: newBudgets(),
		pods: map[types.NamespacedName]*pod{}, places: map[string]place{}, lacking: newLacking(), jobs: newJobs(), shapes: newShapes(),
		machines: newMachines(), written: map[types.UID]time.Time{}, ending: map[types.UID]time.Time{},
		catalogs: map[cloud.ClassRef]catalog{}, offers: newOfferings(),
		failing: map[string]failing{}, readsFailures: o.ReadFailures, noStatic: o.NoStatic, overlays: o.Overlays, overlaid: overlaid{objects: newTable[*v1alpha1.NodeOverlay]()},
	}
}

// Changed has a value after something that matters to decisions changed. Many changes may give one value.
func (w *World) Changed() <-chan struct{} { return w.changed }

func (w *World) poke() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Names is the table of resource names that snapshots use.
func (w *World) Names() *translate.Names { return w.names }

// Update tells the world an object's state: a Pod, Node, NodeClaim, NodePool, DaemonSet, LimitRange, Namespace, PodDisruptionBudget,
// or one of those that volumes are made of. The object is kept: do not change it.
func (w *World) Update(o client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	switch o := o.(type) {
	case *corev1.Pod:
		w.updatePod(o, now)
	case *corev1.Node:
		w.updateNode(o, now)
	case *karpv1.NodeClaim:
		delete(w.written, o.UID)
		w.updateClaim(o, now)
	case *karpv1.NodePool:
		w.updatePool(o, now)
	case *appsv1.DaemonSet:
		w.updateDaemonSet(o, now)
	case *corev1.LimitRange:
		w.updateLimitRange(o, now)
	case *corev1.Namespace:
		w.updateNamespace(o, now)
	case *v1alpha1.NodeOverlay:
		w.updateOverlay(o, now)
	case *corev1.PersistentVolumeClaim:
		updateStorage(w, &w.storage.claims, claimKind, o, now)
	case *corev1.PersistentVolume:
		updateStorage(w, &w.storage.volumes, volumeKind, o, now)
	case *storagev1.StorageClass:
		updateStorage(w, &w.storage.classes, classKind, o, now)
	case *storagev1.CSINode:
		w.updateCSINode(o, now)
	case *policyv1.PodDisruptionBudget:
		w.updateBudget(o, now)
	}
}

// Delete tells the world that an object is gone for good.
func (w *World) Delete(o client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	switch o := o.(type) {
	case *corev1.Pod:
		w.deletePod(o, now)
	case *corev1.Node:
		w.deleteNode(o, now)
	case *karpv1.NodeClaim:
		w.deleteClaim(o, now)
	case *karpv1.NodePool:
		if w.pools.drop(o, now) {
			w.overlaid.stale = true
			w.poke()
		}
	case *v1alpha1.NodeOverlay:
		w.deleteOverlay(o, now)
	case *appsv1.DaemonSet:
		if w.daemonSets.drop(o, now) {
			w.daemonsChanged()
		}
	case *corev1.LimitRange:
		if w.limitRanges.drop(o, now) {
			w.daemonsChanged()
		}
	case *corev1.Namespace:
		w.deleteNamespace(o, now)
	case *corev1.PersistentVolumeClaim:
		deleteStorage(w, &w.storage.claims, claimKind, o, now)
	case *corev1.PersistentVolume:
		deleteStorage(w, &w.storage.volumes, volumeKind, o, now)
	case *storagev1.StorageClass:
		deleteStorage(w, &w.storage.classes, classKind, o, now)
	case *storagev1.CSINode:
		w.deleteCSINode(o, now)
	case *policyv1.PodDisruptionBudget:
		w.deleteBudget(o, now)
	}
}

// ObserveClaim makes the next snapshot know a claim that was just written or read, before the watch shows it. The claim is
// kept: do not change it.
func (w *World) ObserveClaim(claim *karpv1.NodeClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	_, known := w.claims.live[keyOf(claim)]
	if w.updateClaim(claim, now) && !known {
		w.written[claim.UID] = now
	}
}

// ObserveDeletion makes the next snapshot know that deletion of a claim was asked for, before the watch shows it.
func (w *World) ObserveDeletion(claim *karpv1.NodeClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now, ok := w.claims.live[keyOf(claim)]; ok && now.UID == claim.UID {
		w.ending[claim.UID] = w.clock.Now()
		w.machines.touchClaim(claim.Name)
		w.poke()
	}
}

// ForgetClaim drops a claim of which the API says that it does not exist.
func (w *World) ForgetClaim(claim *karpv1.NodeClaim) { w.Delete(claim) }

// SetCatalog says what a node class offers. A reason why it is not ready is shown to pods that wait for it, "" if it
// is. The slice is kept: do not change it.
func (w *World) SetCatalog(class cloud.ClassRef, types []model.InstanceType, notReady string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.catalogs[class]
	if known && old.notReady == notReady && sameSlice(old.types, types) {
		return
	}
	w.catalogs[class] = catalog{types: types, notReady: notReady}
	w.overlaid.stale = true
	w.machines.touchAll()
	w.poke()
}
