// Package automode maintains the objects of EKS Auto Mode: the built-in NodePools general-purpose and system and
// their NodeClass default, whose names are reserved, and a CNINode for each node of a NodeClass. Missing built-in
// objects are created, and changes to them are reverted.
package automode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Settings configure EKS Auto Mode.
type Settings struct {
	// Pools are the built-in NodePools that the cluster has, a subset of those that the function Pools lists.
	Pools []string
	// Class is the spec of the NodeClass default.
	Class eksv1.NodeClassSpec
	// BuiltInCNI says that nodes have the VPC CNI that EKS builds into them, as in the simulated region.
	BuiltInCNI bool
}

// HasCNI reports whether the mode is on and builds a VPC CNI into its nodes.
func (s *Settings) HasCNI() bool { return s != nil && s.BuiltInCNI }

// ParsePools reads a list of built-in NodePools, separated by commas.
func ParsePools(list string) ([]string, error) {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(Pools(), name) {
			return nil, fmt.Errorf("%q is no built-in NodePool of EKS Auto Mode: use %s", name, strings.Join(Pools(), ", "))
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// Options configure a Controller.
type Options struct {
	Settings
	Cache    cache.Cache          // required
	Client   client.Client        // required; must read from the API server itself
	Recorder record.EventRecorder // required
	Clock    clock.Clock          // required
	Log      *slog.Logger         // required
}

// Controller maintains the built-in objects and the CNINodes.
type Controller struct {
	o     Options
	queue *workqueue.Queue // of keys: kind/name
	nodes *workqueue.Queue // by name
}

// New returns a Controller. It adds handlers to the cache.
func New(ctx context.Context, o Options) (*Controller, error) {
	c := &Controller{
		o: o, queue: workqueue.New("built-in objects of Auto Mode", o.Clock, o.Log),
		nodes: workqueue.New("nodes of Auto Mode", o.Clock, o.Log),
	}
	for _, kind := range []client.Object{&karpv1.NodePool{}, &eksv1.NodeClass{}} {
		seen := informer.Latest(func(object client.Object) {
			if isBuiltIn(object) {
				c.queue.Add(keyOf(object))
			}
		})
		if err := informer.Watch(ctx, o.Cache, kind, seen); err != nil {
			return nil, err
		}
	}
	return c, informer.Watch(ctx, o.Cache, &corev1.Node{}, func(old, now client.Object) {
		if now != nil && isAutoNode(now) && (old == nil || !isAutoNode(old)) {
			c.nodes.Add(now.GetName())
		}
	})
}

// Run works until ctx is done. The cache must be synced.
func (c *Controller) Run(ctx context.Context) error {
	c.queue.Add(keyOf(nodeClass(c.o.Class)))
	for _, name := range Pools() {
		c.queue.Add(keyOf(nodePool(name)))
	}
	var wg sync.WaitGroup
	wg.Go(func() { c.queue.Run(ctx, 1, c.reconcile) })
	wg.Go(func() { c.nodes.Run(ctx, 4, c.reconcileNode) })
	wg.Wait()
	return nil
}

func isBuiltIn(object client.Object) bool {
	if _, ok := object.(*eksv1.NodeClass); ok {
		return object.GetName() == className
	}
	return slices.Contains(Pools(), object.GetName())
}

func keyOf(object client.Object) string {
	if _, ok := object.(*eksv1.NodeClass); ok {
		return eksv1.Kind + "/" + object.GetName()
	}
	return "NodePool/" + object.GetName()
}

// reconcile brings one built-in object to its desired state.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	kind, name, _ := strings.Cut(key, "/")
	var have, want client.Object = &karpv1.NodePool{}, nodePool(name)
	if kind == eksv1.Kind {
		have, want = &eksv1.NodeClass{}, nodeClass(c.o.Class)
	}
	wanted := kind == eksv1.Kind || slices.Contains(c.o.Pools, name)
	err := c.o.Client.Get(ctx, client.ObjectKey{Name: name}, have)
	switch {
	case apierrors.IsNotFound(err) && wanted:
		return 0, c.create(ctx, key, want)
	case apierrors.IsNotFound(err) || err == nil && have.GetDeletionTimestamp() != nil: // its deletion triggers a call
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", key, err)
	case !wanted && have.GetLabels()[labelManagedBy] == managedBy:
		return 0, client.IgnoreNotFound(c.o.Client.Delete(ctx, have))
	case !wanted || same(have, want):
		return 0, nil
	}
	return 0, c.revert(ctx, key, have, want)
}

func (c *Controller) create(ctx context.Context, key string, want client.Object) error {
	if err := c.o.Client.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the built-in %s of EKS Auto Mode: %w", key, err)
	}
	return nil
}

// revert restores an object and records an event on it.
func (c *Controller) revert(ctx context.Context, key string, have, want client.Object) error {
	labels := have.GetLabels()
	ours := labels[labelManagedBy] == managedBy
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelManagedBy] = managedBy
	have.SetLabels(labels)
	switch have := have.(type) {
	case *karpv1.NodePool:
		have.Spec = want.(*karpv1.NodePool).Spec
	case *eksv1.NodeClass:
		have.Spec = want.(*eksv1.NodeClass).Spec
	}
	err := c.o.Client.Update(ctx, have)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err): // the newer version arrives through the watch
		return nil
	case apierrors.IsInvalid(err): // for example another group of its class, which is immutable
		return errors.Join(fmt.Errorf("put back the built-in %s of EKS Auto Mode: %w", key, err),
			fmt.Errorf("the name is reserved: delete the object that has it"))
	case err != nil:
		return fmt.Errorf("put back the built-in %s of EKS Auto Mode: %w", key, err)
	}
	kind, _, _ := strings.Cut(key, "/")
	message := fmt.Sprintf("This %s is built into EKS Auto Mode: the change was reverted; create a %s of your own instead",
		kind, kind)
	if !ours {
		message = fmt.Sprintf("This name is reserved for the %s that is built into EKS Auto Mode, which replaced the "+
			"object; choose another name", kind)
	}
	c.o.Recorder.Event(have, corev1.EventTypeWarning, "Reverted", message)
	c.o.Log.Warn("a built-in object of Auto Mode was changed and is put back", "object", key)
	return nil
}

// same reports whether an object is as desired, apart from the metadata of others.
func same(have, want client.Object) bool {
	if have.GetLabels()[labelManagedBy] != managedBy {
		return false
	}
	switch have := have.(type) {
	case *karpv1.NodePool:
		return equality.Semantic.DeepEqual(have.Spec, want.(*karpv1.NodePool).Spec)
	case *eksv1.NodeClass:
		return equality.Semantic.DeepEqual(have.Spec, want.(*eksv1.NodeClass).Spec)
	}
	return true
}
