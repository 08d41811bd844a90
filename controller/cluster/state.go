// Package cluster turns watch events into immutable snapshots. It is the single owner of mutable cluster state: all
// other code holds a Snapshot, or objects that never change.
//
// Events may arrive late, twice or out of order: an object's state is the one with the highest resource version, and
// an object that was seen deleted never comes back. The same objects give the same snapshot.
package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Options configure a State. All fields have a default.
type Options struct {
	Clock clock.Clock      // default the real one
	Names *translate.Names // default a new table
	// Networks makes Attach watch ENIConfigs and the VPC CNI's ConfigMap, too.
	Networks bool
	// ClassKinds returns the kinds of node classes whose NodePools and NodeClaims the State takes in; nil = all. See
	// Manages.
	ClassKinds func() []schema.GroupKind
	// Overlays makes Attach watch NodeOverlays, too.
	Overlays  bool
	Scheduler translate.SchedulerConfig // of the cluster's kube-scheduler
	// Readable reports whether a kind may be read. Only then does Attach watch optional kinds, such as those that say
	// how many pods will be created. nil = no.
	Readable func(context.Context, client.Object) bool
	// BuiltInCNI says that nodes of EKS Auto Mode have the VPC CNI that EKS builds into them. Elsewhere it is unknown what
	// they take from subnets, unless aws-node runs there.
	BuiltInCNI bool
	// NoDevices disables dynamic resource allocation: pods with ResourceClaims are not planned for.
	NoDevices bool
	// NoStatic leaves pools with spec.replicas alone: they neither gain nor lose nodes.
	NoStatic bool
	// NoExpected disables expected pods, which their controllers have yet to create, for a State of what exists.
	NoExpected bool
	// Apart reports whether a pod that is yet to be created will need none of the NodePools' nodes; nil = none of them.
	Apart func(*corev1.Pod) bool
	// ReadFailures reads launch failures from the status of NodePools, for a State that launches nothing itself.
	ReadFailures bool
}

// State is the known state of the cluster. Each part owns what its name says; all share the lock, the clock and the
// change signal of hub. Exported methods lock; unexported ones are called with the lock held. All exported methods
// are safe for concurrent use. Objects that State hands out are shared with the informers: do not change them.
type State struct {
	*hub
	*objects              // the newest known state of every object
	*nodes                // Nodes paired with their NodeClaims
	*pods                 // waiting and bound pods with their shapes
	*pools                // what NodePools may launch now
	*offerings            // back-off of offerings without capacity
	*failures             // back-off of pools whose launches fail
	*pauses               // pools whose nodes are not replaced for now
	*overlaid             // what NodeOverlays change
	*nominations          // where the newest plan places pods
	*successors           // pods expected in place of evicted ones
	*placeholders         // capacity to be kept free
	owners        *owners // pods that ReplicaSets, Jobs and others have yet to create
	quotas        *quotas // how many of those may be created
	daemons       *daemons
	*devices      // of dynamic resource allocation
	shapes        *shapes
	subnets       *subnets

	names         *translate.Names
	watchOverlays bool
	watchNetworks bool
	noExpected    bool
	readable      func(context.Context, client.Object) bool

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
	objects, shapes := &objects{hub: h, classKinds: o.ClassKinds}, &shapes{byKey: map[string]*shape{}}
	nodes := &nodes{
		hub: h, objects: objects, byName: map[string]*node{}, unpaired: map[string]*node{},
		written: map[types.UID]time.Time{}, ending: map[types.UID]time.Time{}, expiring: map[types.UID]bool{},
		nodesOf: map[string]map[string]bool{}, claimsOf: map[string]map[string]bool{},
		nodeID: map[string]string{}, claimID: map[string]string{}, byInstance: map[string]string{},
	}
	byPod := map[types.NamespacedName]*pod{}
	devices := newDevices(h, nodes, o.Names, o.NoDevices)
	successors := &successors{hub: h, nodes: nodes, shapes: shapes, pods: byPod}
	pods := &pods{
		hub: h, objects: objects, nodes: nodes, shapes: shapes, successors: successors,
		storage: &storage{
			hub: h, nodes: nodes, names: o.Names, users: map[need]map[*pod]bool{}, devices: devices,
			spread: &defaultSpread{
				config: o.Scheduler, selectors: map[types.UID]*metav1.LabelSelector{},
				watched: map[string]bool{}, in: map[string]map[string]*corev1.Service{},
			},
		},
		budgets: &budgets{hub: h, objects: objects, nodes: nodes, in: map[string]map[string]*budget{}},
		jobs:    &jobs{nodes: nodes, by: map[string]*job{}, sweep: maxJobs},
		missing: &missingDaemons{
			hub: h, nodes: nodes, on: map[string]map[types.NamespacedName]model.MissingDaemon{},
			of: map[types.NamespacedName]string{},
		},
		all: byPod, places: map[string]*place{}, daemons: newDaemons(h, objects, nodes, o.Names),
	}
	offerings := &offerings{hub: h, exhausted: map[exhaustedKey]backoff{}}
	failures := &failures{hub: h, byPool: map[string]failing{}, fromPools: o.ReadFailures}
	pauses := &pauses{hub: h, until: map[string]time.Time{}}
	catalogs := map[cloud.ClassRef]catalog{}
	subnets := &subnets{hub: h, objects: objects, nodes: nodes, builtIn: o.BuiltInCNI, byClass: classSubnets{}}
	overlaid := &overlaid{
		hub: h, objects: objects, nodes: nodes, names: o.Names, catalogs: catalogs, offerings: offerings,
	}
	nominations := &nominations{hub: h, objects: objects, nodes: nodes, pods: pods, nominees: map[string]time.Time{}}
	owners := newOwners(h, objects, pods, o.Apart)
	pods.owners, pods.nominations = owners, nominations
	return &State{
		owners: owners, quotas: &quotas{objects: objects}, subnets: subnets, devices: devices,
		hub: h, objects: objects, nodes: nodes, pods: pods, offerings: offerings, failures: failures, pauses: pauses,
		overlaid: overlaid, successors: successors, shapes: shapes, names: o.Names, watchOverlays: o.Overlays,
		watchNetworks: o.Networks, readable: o.Readable, noExpected: o.NoExpected,
		pools: &pools{
			hub: h, objects: objects, nodes: nodes, names: o.Names, catalogs: catalogs, offerings: offerings,
			failures: failures, pauses: pauses, overlaid: overlaid, subnets: subnets, devices: devices, noStatic: o.NoStatic,
		},
		nominations:  nominations,
		placeholders: newPlaceholders(h, pods),
		daemons:      pods.daemons,
	}
}

// hub is shared by all parts of a State.
type hub struct {
	mu      sync.Mutex // guards every part
	clock   clock.Clock
	changed chan struct{}

	workloads    uint64
	stalePending bool // the pending pods of the last snapshot have changed
}

// Changed receives a value after a change that matters to decisions. Many changes may give one value.
func (h *hub) Changed() <-chan struct{} { return h.changed }

// Workloads returns how many controllers were seen to begin to want pods, and pods of controllers that cannot be read.
func (h *hub) Workloads() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.workloads
}

func (h *hub) poke() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// ReadPod translates a pod, except for its shape, according to the cluster's scheduler configuration.
func (s *State) ReadPod(pod *corev1.Pod) translate.Pod { return s.storage.spread.config.ReadPod(pod) }

// Names returns the table of resource names that snapshots use.
func (s *State) Names() *translate.Names { return s.names }
