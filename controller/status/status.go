// Package status maintains the statuses of NodePools, node classes and NodeOverlays: conditions, sums and hashes. It
// also tells the cluster state what each class offers, and from which zones traffic is shifted away.
package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/vpccni"
	facts "github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/informer"
)

// Catalog returns what a class offers; a cloud.Provider is one.
type Catalog interface {
	Catalog(ctx context.Context, class cloud.ClassRef) ([]model.InstanceType, error)
}

// Resolver fills in the status of the caller's copy of a class. An error is a failure that may be transient.
type Resolver interface {
	Resolve(ctx context.Context, class *ec2v1.EC2NodeClass) error
}

// Hasher provides the hash with which a class is compared with the claims made from it; without a Hasher, the class's
// own.
type Hasher interface {
	// ClassHash returns "" for a class that is invalid and therefore has no hash.
	ClassHash(class *ec2v1.EC2NodeClass) string
}

// Finalizer removes what was created in the cloud for a class that is being deleted.
type Finalizer interface {
	Finalize(ctx context.Context, class *ec2v1.EC2NodeClass) error
}

// Options configure a Controller.
type Options struct {
	// Provider offers instance types. If it is also a Resolver, Hasher or Finalizer, it serves classes as one.
	Provider Catalog
	Classes  *Classes        // required; the provider reads it, too
	Cache    cache.Cache     // required
	Client   client.Client   // required; must read from the API server itself
	Cluster  *cluster.State  // required
	Recorder events.Recorder // required
	// OnClass is called for each class that changed; may be nil.
	OnClass func(cloud.ClassRef)
	// Preflight says whether pools report nodes that would accept more pods than they have addresses for.
	Preflight model.Preflight
	// Networks says that the cluster has ENIConfigs, and therefore the VPC CNI; WindowsIPAM says that the latter's
	// ConfigMap is watched.
	Networks, WindowsIPAM bool
	// Overlays enables the conditions of NodeOverlays.
	Overlays bool
	// Refresh is how often classes are resolved again in the cloud; default a minute.
	Refresh time.Duration
	Clock   clock.Clock  // default the real one
	Log     *slog.Logger // default slog.Default
}

// Controller maintains the statuses of NodePools, node classes and NodeOverlays.
type Controller struct {
	pools    *poolReconciler
	classes  *classReconciler
	overlays *overlayReconciler // nil without Options.Overlays
	zones    *zoneReconciler    // nil if the cloud has no zonal shifts
}

// New returns a Controller. It adds handlers to the cache.
func New(ctx context.Context, o Options) (*Controller, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Refresh <= 0 {
		o.Refresh = refreshInterval
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Controller{pools: newPoolReconciler(&o), zones: newZoneReconciler(&o)}
	c.classes = newClassReconciler(&o, c.pools.queue)
	if o.Overlays {
		c.overlays = newOverlayReconciler(&o)
	}
	type watch struct {
		object  client.Object
		changed func(client.Object)
	}
	watches := []watch{
		{&karpv1.NodePool{}, c.poolChanged},
		{&karpv1.NodeClaim{}, c.claimChanged},
		{&corev1.Node{}, c.nodeChanged},
		{&appsv1.DaemonSet{}, c.daemonSetChanged},
	}
	if o.Networks {
		watches = append(watches, watch{&vpccni.ENIConfig{}, func(client.Object) { c.networkChanged() }})
	}
	if o.WindowsIPAM {
		watches = append(watches, watch{&corev1.ConfigMap{}, func(client.Object) { c.networkChanged() }})
	}
	for kind, h := range o.Classes.handles {
		watches = append(watches, watch{h.empty(), func(object client.Object) {
			ref := cloud.ClassRef{Group: kind.Group, Kind: kind.Kind, Name: object.GetName()}
			c.classes.changed(ref)
			if o.OnClass != nil {
				o.OnClass(ref)
			}
		}})
	}
	for _, w := range watches {
		if err := informer.Watch(ctx, o.Cache, w.object, informer.Latest(w.changed)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run works until ctx is done. The cache must be synced.
func (c *Controller) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { c.pools.queue.Run(ctx, 4, c.pools.reconcile) })
	wg.Go(func() { c.classes.queue.Run(ctx, 4, c.classes.reconcile) })
	if c.overlays != nil {
		c.overlays.enqueueAll()
		wg.Go(func() { c.overlays.queue.Run(ctx, 2, c.overlays.reconcile) })
	}
	if c.zones != nil {
		wg.Go(func() { c.zones.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Decided updates the statuses that follow from the newest snapshot.
func (c *Controller) Decided() {
	if c.overlays != nil {
		c.overlays.enqueueAll()
	}
}

// Registered records whether the instance of a claim became a Node in time. Claims that their pool does not own do
// not count.
func (c *Controller) Registered(claim *karpv1.NodeClaim, yes bool) {
	if !c.pools.registered(claim, yes) {
		return
	}
	if ref := cluster.ClassRef(claim.Spec.NodeClassRef); ref.Name != "" {
		if !yes {
			c.classes.forget(ref) // the cloud may have changed: an image or a subnet is gone
		}
		c.classes.queue.Add(keyOf(ref)) // its condition says whether launches fail
	}
}

func (c *Controller) poolChanged(o client.Object) {
	c.pools.queue.Add(o.GetName())
	if ref := cluster.ClassRef(o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef); ref.Name != "" {
		c.classes.queue.Add(keyOf(ref))
	}
}

func (c *Controller) claimChanged(o client.Object) {
	claim := o.(*karpv1.NodeClaim)
	if pool := claim.Labels[karpv1.NodePoolLabelKey]; pool != "" {
		c.pools.queue.Add(pool)
		c.pools.queue.After(pool, time.Second) // the cluster state, which sums up, may observe it later
	}
	if ref := cluster.ClassRef(claim.Spec.NodeClassRef); claim.DeletionTimestamp != nil && ref.Name != "" {
		if class := c.classes.o.Classes.Get(ref); class != nil && class.DeletionTimestamp != nil {
			c.classes.queue.After(keyOf(ref), time.Second)
		}
	}
}

func (c *Controller) nodeChanged(o client.Object) {
	if pool := o.GetLabels()[karpv1.NodePoolLabelKey]; pool != "" {
		c.pools.queue.After(pool, time.Second)
	}
}

// daemonSetChanged handles a change of the VPC CNI's DaemonSet, which decides how many addresses nodes have.
func (c *Controller) daemonSetChanged(o client.Object) {
	if o.GetNamespace() != metav1.NamespaceSystem || o.GetName() != facts.CNIContainer {
		return
	}
	c.networkChanged()
}

// networkChanged reconciles the classes and their pools, since the number of pods that nodes accept and where these
// get addresses may have changed.
func (c *Controller) networkChanged() {
	for _, pool := range c.pools.o.Cluster.NodePools() {
		if ref := cluster.ClassRef(pool.Spec.Template.Spec.NodeClassRef); ref.Name != "" {
			c.classes.queue.After(keyOf(ref), time.Second) // the cluster state may observe it later
		}
		c.pools.queue.After(pool.Name, time.Second)
	}
}

func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
