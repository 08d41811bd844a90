// Package status keeps what NodePools and node classes say of themselves: conditions, sums, hashes; and it gives the
// world what each class offers.
package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Catalog says what a class offers; a cloud.Provider is one.
type Catalog interface {
	Catalog(ctx context.Context, class cloud.ClassRef) ([]model.InstanceType, error)
}

// Resolver fills the status of the caller's copy of a class; an error means trouble that passes.
type Resolver interface {
	Resolve(ctx context.Context, class *ec2v1.EC2NodeClass) error
}

// Finalizer removes what was made in the cloud for a class that is going.
type Finalizer interface {
	Finalize(ctx context.Context, class *ec2v1.EC2NodeClass) error
}

// Options are what a Keeper needs.
type Options struct {
	// Provider offers machines; if it is a Resolver and a Finalizer too, classes are resolved and finalized with it.
	Provider Catalog
	Classes  *Classes        // required; the provider reads it too
	Cache    cache.Cache     // required
	Client   client.Client   // required; must read from the API server itself
	World    *cluster.World  // required
	Recorder events.Recorder // required
	// ClassHash is the value of a class's hash annotation, "" for none; default the class's own.
	ClassHash func(*ec2v1.EC2NodeClass) string
	// OnClass is told of classes that changed; may be nil.
	OnClass func(cloud.ClassRef)
	// Refresh is how often the cloud is asked again what a class stands for; default a minute.
	Refresh time.Duration
	Clock   clock.Clock  // default the real one
	Log     *slog.Logger // default slog.Default
}

// Keeper keeps statuses.
type Keeper struct {
	o              Options
	pools, classes *workqueue.Queue
	wrotePools     mutationcache.Cache[*karpv1.NodePool]

	mu       sync.Mutex
	lastPool map[string]time.Time // when a pool's status was last written
	health   map[string]*health   // by pool
}

// watch is what to do when an object of a kind changes.
type watch struct {
	object client.Object
	seen   func(client.Object)
}

// New is a Keeper. It registers handlers on the cache.
func New(ctx context.Context, o Options) (*Keeper, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Refresh <= 0 {
		o.Refresh = resolveEvery
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.ClassHash == nil {
		o.ClassHash = func(c *ec2v1.EC2NodeClass) string { return c.Hash(nil) }
	}
	k := &Keeper{
		o: o, pools: workqueue.New("NodePool status", o.Clock, o.Log), classes: workqueue.New("node class", o.Clock, o.Log),
		lastPool: map[string]time.Time{}, health: map[string]*health{},
	}
	watches := []watch{{&karpv1.NodePool{}, k.sawPool}, {&karpv1.NodeClaim{}, k.sawClaim}, {&corev1.Node{}, k.sawNode}}
	for kind, h := range o.Classes.handles {
		watches = append(watches, watch{h.empty(), func(o client.Object) {
			k.sawClass(cloud.ClassRef{Group: kind.Group, Kind: kind.Kind, Name: o.GetName()})
		}})
	}
	for _, w := range watches {
		if err := informer.Watch(ctx, o.Cache, w.object, informer.Latest(w.seen)); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Run works until ctx is done. The cache must be synced.
func (k *Keeper) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { k.pools.Run(ctx, 4, k.pool) })
	wg.Go(func() { k.classes.Run(ctx, 4, k.class) })
	wg.Wait()
	return nil
}

func (k *Keeper) sawPool(o client.Object) {
	k.pools.Add(o.GetName())
	if ref := translate.ClassRef(o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef); ref.Name != "" {
		k.classes.Add(keyOf(ref))
	}
}

func (k *Keeper) sawClaim(o client.Object) {
	claim := o.(*karpv1.NodeClaim)
	if pool := claim.Labels[karpv1.NodePoolLabelKey]; pool != "" {
		k.pools.Add(pool)
		k.pools.After(pool, time.Second) // the world, which sums up, may hear of it later
	}
	if ref := translate.ClassRef(claim.Spec.NodeClassRef); claim.DeletionTimestamp != nil && ref.Name != "" {
		if c := k.o.Classes.Get(ref); c != nil && c.DeletionTimestamp != nil {
			k.classes.After(keyOf(ref), time.Second)
		}
	}
}

func (k *Keeper) sawNode(o client.Object) {
	if pool := o.GetLabels()[karpv1.NodePoolLabelKey]; pool != "" {
		k.pools.After(pool, time.Second)
	}
}

func (k *Keeper) sawClass(ref cloud.ClassRef) {
	k.classes.Add(keyOf(ref))
	k.touchPools(ref)
	if k.o.OnClass != nil {
		k.o.OnClass(ref)
	}
}

func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
