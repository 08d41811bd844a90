// Package nodegroup maintains the objects that belong to NodeGroups: a NodePool for each NodeGroup that no NodePool
// refers to, a NodeClaim for each instance that an Auto Scaling group already has, and a NodeGroup for each Auto
// Scaling group with the tags by which Cluster Autoscaler discovers its groups.
package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// How often to look for groups, and for instances that have no NodeClaim. Cluster Autoscaler refreshes every minute
// (github.com/kubernetes/autoscaler/cluster-autoscaler/cloudprovider/aws/aws_manager.go, refreshInterval).
const (
	discoverEvery = time.Minute
	adoptEvery    = 15 * time.Second
	releaseAgain  = time.Second // the cached objects may have been outdated
)

// maxName is the maximum length of a NodeClaim's name, which is also a label of its Node.
const maxName = 63

// Cloud finds Auto Scaling groups and their instances.
type Cloud interface {
	// DiscoverGroups returns the names of the groups that have a tag with each of the keys.
	DiscoverGroups(ctx context.Context, tags []string) ([]string, error)
	// UnclaimedInstances returns the instances of a NodeGroup's group that have no NodeClaim, by ID.
	UnclaimedInstances(ctx context.Context, class cloud.ClassRef) ([]cloud.Instance, error)
	// ReleaseInstance removes the marks from an instance that identify its NodeClaim.
	ReleaseInstance(ctx context.Context, id string) error
}

// Options configure a Controller. All fields but Tags are required.
type Options struct {
	Cloud    Cloud
	Cache    cache.Cache
	Client   client.Client // must read from the API server itself
	Cluster  *cluster.State
	Recorder record.EventRecorder
	Clock    clock.Clock
	Log      *slog.Logger
	// Tags are the keys of the tags that a group must have to be discovered; none = no group is.
	Tags []string
}

// Controller maintains the objects of NodeGroups.
type Controller struct {
	o         Options
	groups    *workqueue.Queue // by name
	discovery *workqueue.Queue // of one key
}

// New returns a Controller. It adds handlers to the cache.
func New(ctx context.Context, o Options) (*Controller, error) {
	c := &Controller{
		o: o, groups: workqueue.New("node groups", o.Clock, o.Log),
		discovery: workqueue.New("discovery of node groups", o.Clock, o.Log),
	}
	err := informer.Watch(ctx, o.Cache, &v1alpha1.NodeGroup{},
		informer.Latest(func(group client.Object) { c.groups.Add(group.GetName()) }))
	return c, err
}

// Run works until ctx is done. The cache must be synced.
func (c *Controller) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { c.groups.Run(ctx, 2, c.reconcile) })
	if len(c.o.Tags) > 0 {
		c.discovery.Add("all")
		wg.Go(func() { c.discovery.Run(ctx, 1, c.discover) })
	}
	wg.Wait()
	return nil
}

// classOf returns the reference to a NodeGroup as a node class.
func classOf(name string) cloud.ClassRef {
	return cloud.ClassRef{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.NodeGroupKind, Name: name}
}

// reconcile maintains the NodePool of a NodeGroup and the NodeClaims of its instances.
func (c *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	group := &v1alpha1.NodeGroup{}
	err := c.o.Cache.Get(ctx, client.ObjectKey{Name: name}, group)
	switch {
	case apierrors.IsNotFound(err):
		return 0, c.reopenLeft(ctx, name)
	case err != nil:
		return 0, err
	case group.DeletionTimestamp != nil:
		return releaseAgain, c.release(ctx, group)
	case !isReady(group):
		return 0, nil // becoming ready triggers another call
	}
	pool, err := c.pool(ctx, group)
	if pool == nil || err != nil {
		return adoptEvery, err
	}
	return adoptEvery, c.adopt(ctx, group, pool)
}

func isReady(group *v1alpha1.NodeGroup) bool {
	return meta.IsStatusConditionTrue(group.Status.Conditions, "Ready")
}

// adopt creates a NodeClaim for each instance that has none and will not be given to a NodeClaim waiting for its
// launch.
func (c *Controller) adopt(ctx context.Context, group *v1alpha1.NodeGroup, pool *karpv1.NodePool) error {
	free, err := c.o.Cloud.UnclaimedInstances(ctx, classOf(group.Name))
	if errors.Is(err, cloud.ErrClassNotReady) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for instances of NodeGroup %s: %w", group.Name, err)
	}
	waiting := map[string]bool{} // instances named by claims
	launches := 0
	for _, claim := range c.o.Cluster.Claims() {
		if cluster.ClassRef(claim.Spec.NodeClassRef) != classOf(group.Name) || claim.Status.ProviderID != "" {
			continue
		}
		if id := claim.Annotations[v1alpha1.AnnotationInstance]; id != "" {
			waiting[id] = true
		} else {
			launches++
		}
	}
	free = slices.DeleteFunc(free, func(i cloud.Instance) bool { return waiting[i.ID] })
	for _, i := range free[min(launches, len(free)):] {
		if err := c.claim(ctx, pool, i); err != nil {
			return err
		}
		c.o.Recorder.Eventf(group, corev1.EventTypeNormal, "Adopted", "instance %s gets a NodeClaim of NodePool %s", i.ID,
			pool.Name)
	}
	return nil
}

// claim creates the NodeClaim of an instance. Launching the claim takes the instance instead of a new one.
func (c *Controller) claim(ctx context.Context, pool *karpv1.NodePool, i cloud.Instance) error {
	key := model.OfferingKey{Type: i.Type, Zone: i.Zone, CapacityType: i.CapacityType}
	launch := model.Launch{ID: i.ID, Pool: pool.Name, Requirements: model.NewRequirements(
		model.OneOf(model.LabelInstanceType, i.Type), model.OneOf(model.LabelZone, i.Zone),
		model.OneOf(model.LabelCapacityType, i.CapacityType),
	)}
	name := pool.Name[:min(len(pool.Name), maxName-len(i.ID)-1)] + "-" + i.ID
	claim := c.o.Cluster.Names().NewClaim(name, pool, launch, nil,
		translate.Expected{Candidate: model.Candidate{OfferingKey: key}})
	claim.Annotations[v1alpha1.AnnotationInstance] = i.ID
	if err := c.o.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the NodeClaim of instance %s: %w", i.ID, err)
	}
	return nil
}
