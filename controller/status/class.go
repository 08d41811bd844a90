package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// refreshInterval is how often a class is resolved again in the cloud. Prices change the catalog, too.
const refreshInterval = time.Minute

// classReconciler resolves node classes and tells the cluster state what they offer.
type classReconciler struct {
	o     *Options
	queue *workqueue.Queue // by keyOf
	pools *workqueue.Queue // reconciles NodePools

	mu       sync.Mutex
	resolved map[cloud.ClassRef]resolution
}

// resolution records for which state of a class the cloud was last queried. The class is resolved again when its spec
// has changed, when something else has made it ready or unready, and when the answer is old; but not when a status of
// one of its pools changes, which each launch does.
type resolution struct {
	uid        types.UID
	generation int64
	ready      bool
	until      time.Time // when the answer becomes old
}

func newClassReconciler(o *Options, pools *workqueue.Queue) *classReconciler {
	return &classReconciler{
		o: o, queue: workqueue.New("node class", o.Clock, o.Log), pools: pools, resolved: map[cloud.ClassRef]resolution{},
	}
}

// changed queues a class and its pools.
func (k *classReconciler) changed(ref cloud.ClassRef) {
	if o := k.o.Classes.object(ref); o != nil && k.o.Preflight == model.Enforce && k.isOther(ref, o) {
		k.o.Cluster.ClassChanged(ref)
	}
	k.queue.Add(keyOf(ref))
	k.touchPools(ref)
}

// reconcile updates one class.
func (k *classReconciler) reconcile(ctx context.Context, key string) (time.Duration, error) {
	ref := refOf(key)
	h := k.o.Classes.handle(ref)
	if h == nil {
		k.offerNothing(ref, k.o.Classes.unknown(ref))
		return 0, nil
	}
	object := k.o.Classes.object(ref)
	if object == nil {
		k.forget(ref)
		k.offerNothing(ref, fmt.Sprintf("%s does not exist; create it or correct spec.template.spec.nodeClassRef.name",
			title(ref)))
		return k.afterEnd(ctx, ref, h)
	}
	if object.GetDeletionTimestamp() != nil {
		k.offerNothing(ref, title(ref)+" is being deleted")
		return k.finalize(ctx, ref, h, object)
	}
	object, err := k.stamp(ctx, ref, h, object)
	if err != nil {
		return 0, client.IgnoreNotFound(err) // its deletion triggers another call
	}
	if podNetworker, ok := k.o.Provider.(cloud.PodNetworker); ok {
		cni := k.o.Cluster.CNI()
		podNetworker.ReserveENIs(cni.ReservedENIs())
		podNetworker.DelegatePrefixes(cni != nil && cni.PrefixDelegation)
	}
	class, resolveErr := k.resolve(ctx, ref, h, object)
	k.o.Cluster.SetGroup(ref, aws.NodeGroupOf(class))
	if why := notReady(class); why != "" {
		k.offerNothing(ref, why)
		return k.oldIn(ref), resolveErr
	}
	offered, err := k.o.Provider.Catalog(ctx, ref)
	switch {
	case errors.Is(err, cloud.ErrClassNotReady):
		k.offerNothing(ref, err.Error())
		return k.oldIn(ref), resolveErr
	case err != nil: // the previous offer is still approximately right
		return 0, errors.Join(resolveErr, fmt.Errorf("catalog of %s: %w", title(ref), err))
	}
	if err := k.offerPodNetwork(ctx, ref); err != nil {
		return 0, errors.Join(resolveErr, err)
	}
	if p, ok := k.o.Provider.(cloud.Addresser); ok {
		k.o.Cluster.SetSubnets(ref, p.Subnets(ref))
	}
	err = errors.Join(k.offerReservations(ctx, ref), k.offerPlacement(ctx, ref))
	k.o.Cluster.SetCatalog(ref, offered, "") // last, as launches begin with it
	if err != nil {
		return 0, errors.Join(resolveErr, err)
	}
	k.touchPools(ref)
	return k.oldIn(ref), resolveErr
}

// offerPodNetwork sets in which subnets pods get addresses, if not in those of their nodes.
func (k *classReconciler) offerPodNetwork(ctx context.Context, ref cloud.ClassRef) error {
	p, ok := k.o.Provider.(cloud.PodNetworker)
	if !ok {
		return nil
	}
	network, err := p.PodNetwork(ctx, ref)
	if err != nil {
		return fmt.Errorf("pod network of %s: %w", title(ref), err)
	}
	k.o.Cluster.SetPodNetwork(ref, network)
	if ids := k.o.Cluster.PodSubnets(); len(ids) > 0 {
		found, err := p.SubnetsByID(ctx, ids)
		if err != nil {
			return fmt.Errorf("subnets of ENIConfigs: %w", err)
		}
		k.o.Cluster.SetPodSubnets(ids, found)
	}
	return nil
}

// offerReservations sets which capacity reservations a class selects, and what they have free.
func (k *classReconciler) offerReservations(ctx context.Context, ref cloud.ClassRef) error {
	p, ok := k.o.Provider.(cloud.Reserver)
	if !ok {
		return nil
	}
	reservations, err := p.Reservations(ctx, ref)
	if err != nil {
		return fmt.Errorf("capacity reservations of %s: %w", title(ref), err)
	}
	k.o.Cluster.SetReservations(ref, reservations)
	return nil
}

// offerPlacement sets the labels over whose values the instances of a class are distributed.
func (k *classReconciler) offerPlacement(ctx context.Context, ref cloud.ClassRef) error {
	p, ok := k.o.Provider.(cloud.Placer)
	if !ok {
		return nil
	}
	labels, err := p.Placement(ctx, ref)
	if err != nil {
		return fmt.Errorf("placement of %s: %w", title(ref), err)
	}
	k.o.Cluster.SetPlacement(ref, labels)
	return nil
}

// offerNothing records why a class offers nothing.
func (k *classReconciler) offerNothing(ref cloud.ClassRef, why string) {
	k.o.Cluster.SetCatalog(ref, nil, why)
	k.o.Cluster.SetSubnets(ref, nil)
	k.o.Cluster.SetReservations(ref, nil)
	k.touchPools(ref)
}

func (k *classReconciler) touchPools(ref cloud.ClassRef) {
	for _, pool := range k.o.Cluster.NodePools() {
		if cluster.ClassRef(pool.Spec.Template.Spec.NodeClassRef) == ref {
			k.pools.Add(pool.Name)
		}
	}
}

// stamp writes the finalizer and the hash if they are missing, and returns the object with them.
func (k *classReconciler) stamp(ctx context.Context, ref cloud.ClassRef, h handle,
	before client.Object,
) (client.Object, error) {
	object := before.DeepCopyObject().(client.Object)
	if h.finalizer() != "" {
		controllerutil.AddFinalizer(object, h.finalizer())
	}
	if class := h.view(object); h.hashed() {
		if hash := k.hashOf(class); hash != "" {
			hashKey, versionKey := aws.HashKeys(class)
			s := stamp{hashKey, versionKey, hash, ec2v1.EC2NodeClassHashVersion}
			ours := func(c *karpv1.NodeClaim) bool { // a claim without a hash is not launched yet
				return cluster.ClassRef(c.Spec.NodeClassRef) == ref && c.Annotations[s.hashKey] != ""
			}
			if err := s.restamp(ctx, k.o, ours); err != nil {
				return nil, err
			}
			s.on(object)
		}
	}
	if equal(before.GetFinalizers(), object.GetFinalizers()) && equal(before.GetAnnotations(), object.GetAnnotations()) {
		return before, nil
	}
	if err := k.o.Client.Patch(ctx, object, locked(before)); err != nil {
		return nil, fmt.Errorf("update %s: %w", title(ref), err)
	}
	k.o.Classes.wrote.Mutated(object.DeepCopyObject().(client.Object))
	return object, nil
}

// hashOf returns the hash annotation of a class, "" for none.
func (k *classReconciler) hashOf(class *ec2v1.EC2NodeClass) string {
	if h, ok := k.o.Provider.(Hasher); ok {
		return h.ClassHash(class)
	}
	return class.Hash(nil)
}

// isOld reports whether a class must be resolved again.
func (k *classReconciler) isOld(ref cloud.ClassRef, class *ec2v1.EC2NodeClass) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.resolved[ref]
	return !ok || r.uid != class.UID || r.generation != class.Generation || r.ready != (notReady(class) == "") ||
		!k.o.Clock.Now().Before(r.until)
}

// isOther reports whether the spec of a class has changed since it was resolved.
func (k *classReconciler) isOther(ref cloud.ClassRef, object client.Object) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.resolved[ref]
	return ok && (r.uid != object.GetUID() || r.generation != object.GetGeneration())
}

// oldIn returns how long the resolution of a class remains valid, at most Refresh.
func (k *classReconciler) oldIn(ref cloud.ClassRef) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.resolved[ref]; ok {
		return max(r.until.Sub(k.o.Clock.Now()), time.Millisecond)
	}
	return k.o.Refresh
}

func (k *classReconciler) noteResolved(ref cloud.ClassRef, class *ec2v1.EC2NodeClass) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resolved[ref] = resolution{class.UID, class.Generation, notReady(class) == "", k.o.Clock.Now().Add(k.o.Refresh)}
}

// forget makes the next reconciliation resolve a class anew.
func (k *classReconciler) forget(ref cloud.ClassRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.resolved, ref)
}

// resolve resolves a class in the cloud, unless it is still resolved, and writes its status: after a failure, as far
// as it could be resolved.
func (k *classReconciler) resolve(ctx context.Context, ref cloud.ClassRef, h handle,
	before client.Object,
) (*ec2v1.EC2NodeClass, error) {
	class := h.draft(before)
	resolver, ok := k.o.Provider.(Resolver)
	if !ok {
		return class, nil
	}
	var err error
	asked := k.isOld(ref, class)
	if asked {
		err = resolver.Resolve(ctx, class)
	}
	k.judgeLaunches(ref, class)
	object := h.settled(before, class, metav1.NewTime(k.o.Clock.Now()))
	if !equal(before, object) {
		if writeErr := k.o.Client.Status().Patch(ctx, object, locked(before)); writeErr != nil {
			return class, errors.Join(err, fmt.Errorf("update status of %s: %w", title(ref), writeErr))
		}
		k.o.Classes.wrote.Mutated(object)
	}
	if asked && err == nil {
		k.noteResolved(ref, class)
	}
	return class, err
}

// judgeLaunches writes on a class whether launches fail, and for which pools.
func (k *classReconciler) judgeLaunches(ref cloud.ClassRef, class *ec2v1.EC2NodeClass) {
	found := class.StatusConditions(opstatus.WithObservedOnly())
	var pools []string
	reason, message := "", ""
	for _, pool := range k.o.Cluster.NodePools() {
		f, failed := k.o.Cluster.LaunchFailure(pool.Name)
		if failed && f.Class == ref && cluster.ClassRef(pool.Spec.Template.Spec.NodeClassRef) == ref {
			pools = append(pools, pool.Name)
			reason, message = f.Reason, f.Message
		}
	}
	if len(pools) == 0 {
		_ = found.Clear(translate.ConditionLaunchSucceeded)
		return
	}
	slices.Sort(pools)
	message = fmt.Sprintf("the last launch for NodePool %s failed: %s", strings.Join(pools, ", "), message)
	found.SetFalse(translate.ConditionLaunchSucceeded, reason, message)
}

// notReady returns why a class cannot be used, according to the first of its conditions that says so; "" if it can.
func notReady(class *ec2v1.EC2NodeClass) string {
	kind := class.Kind
	if kind == "" {
		kind = classKind // objects from a cache lack it
	}
	root := conditions.Of(class, opstatus.ConditionReady)
	if root != nil && root.Status == metav1.ConditionTrue {
		return ""
	}
	for _, want := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, c := range class.Status.Conditions {
			if c.Type != opstatus.ConditionReady && c.Status == want {
				return fmt.Sprintf("%s %q is not ready: %s: %s", kind, class.Name, c.Type, c.Message)
			}
		}
	}
	if root != nil && root.Status == metav1.ConditionFalse {
		return fmt.Sprintf("%s %q is not ready: %s", kind, class.Name, root.Message)
	}
	return fmt.Sprintf("%s %q is not resolved yet", kind, class.Name)
}

// finalize releases a class that no claim uses, after removing what was created for it in the cloud.
func (k *classReconciler) finalize(ctx context.Context, ref cloud.ClassRef, h handle,
	before client.Object,
) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(before, h.finalizer()) {
		return 0, nil
	}
	if users := k.users(ref); len(users) > 0 {
		k.o.Recorder.Event(before, corev1.EventTypeNormal, "WaitingOnNodeClaimTermination",
			"Waiting on NodeClaim termination for "+strings.Join(users[:min(len(users), 5)], ", "))
		return 5 * time.Second, nil
	}
	if err := k.forgetInCloud(ctx, ref, h.draft(before)); err != nil {
		return 0, err
	}
	object := before.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(object, h.finalizer())
	if err := k.o.Client.Patch(ctx, object, locked(before)); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("release %s: %w", title(ref), err)
	}
	k.o.Classes.wrote.Forget(before.GetUID())
	h.forget(before.GetUID())
	return 0, nil
}

// afterEnd removes what was created in the cloud for a deleted class that had no finalizer, once no claim uses the
// class.
func (k *classReconciler) afterEnd(ctx context.Context, ref cloud.ClassRef, h handle) (time.Duration, error) {
	class := h.remembered(ref.Name)
	if class == nil {
		return 0, nil
	}
	if len(k.users(ref)) > 0 {
		return 5 * time.Second, nil
	}
	if err := k.forgetInCloud(ctx, ref, class); err != nil {
		return 0, err
	}
	k.o.Classes.wrote.Forget(class.UID)
	h.forget(class.UID)
	return 0, nil
}

// forgetInCloud removes what was created in the cloud for a class.
func (k *classReconciler) forgetInCloud(ctx context.Context, ref cloud.ClassRef, class *ec2v1.EC2NodeClass) error {
	f, ok := k.o.Provider.(Finalizer)
	if !ok {
		return nil
	}
	if err := f.Finalize(ctx, class); err != nil {
		return fmt.Errorf("finalize %s: %w", title(ref), err)
	}
	return nil
}

// users returns the names of the claims that use a class.
func (k *classReconciler) users(ref cloud.ClassRef) []string {
	var users []string
	for _, c := range k.o.Cluster.Claims() {
		if cluster.ClassRef(c.Spec.NodeClassRef) == ref {
			users = append(users, c.Name)
		}
	}
	return users
}

func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
}
