package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
)

// resolveEvery is how often the cloud is asked again what a class stands for; prices change the catalogue too.
const resolveEvery = time.Minute

// class resolves one class and tells the world what it offers.
func (k *Keeper) class(ctx context.Context, key string) (time.Duration, error) {
	ref := refOf(key)
	h := k.o.Classes.handle(ref)
	if h == nil {
		k.offer(ref, k.o.Classes.unknown(ref))
		return 0, nil
	}
	object := k.o.Classes.object(ref)
	if object == nil {
		k.offer(ref, fmt.Sprintf("%s does not exist; create it or correct spec.template.spec.nodeClassRef.name", title(ref)))
		return k.afterEnd(ctx, ref, h)
	}
	if object.GetDeletionTimestamp() != nil {
		k.offer(ref, title(ref)+" is being deleted")
		return k.finalizeClass(ctx, ref, h, object)
	}
	object, err := k.stampClass(ctx, ref, h, object)
	if err != nil {
		return 0, client.IgnoreNotFound(err) // its end is an event
	}
	class, resolveErr := k.resolve(ctx, ref, h, object)
	if why := notReady(class); why != "" {
		k.offer(ref, why)
		return k.o.Refresh, resolveErr
	}
	offered, err := k.o.Provider.Catalog(ctx, ref)
	switch {
	case errors.Is(err, cloud.ErrClassNotReady):
		k.offer(ref, err.Error())
		return k.o.Refresh, resolveErr
	case err != nil: // what was offered before is still right, more or less
		return 0, errors.Join(resolveErr, fmt.Errorf("catalog of %s: %w", title(ref), err))
	}
	k.o.World.SetCatalog(ref, offered, "")
	k.touchPools(ref)
	return k.o.Refresh, resolveErr
}

// offer says why a class offers nothing.
func (k *Keeper) offer(ref cloud.ClassRef, why string) {
	k.o.World.SetCatalog(ref, nil, why)
	k.touchPools(ref)
}

func (k *Keeper) touchPools(ref cloud.ClassRef) {
	for _, pool := range k.o.World.NodePools() {
		if translate.ClassRef(pool.Spec.Template.Spec.NodeClassRef) == ref {
			k.pools.Add(pool.Name)
		}
	}
}

// stampClass writes finalizer and hash if they are not there, and gives the object with them.
func (k *Keeper) stampClass(ctx context.Context, ref cloud.ClassRef, h handle, before client.Object) (client.Object, error) {
	object := before.DeepCopyObject().(client.Object)
	if h.finalizer() != "" {
		controllerutil.AddFinalizer(object, h.finalizer())
	}
	if class, ok := object.(*ec2v1.EC2NodeClass); ok {
		if hash := k.o.ClassHash(class); hash != "" {
			if err := k.restampClass(ctx, ref, classStamp(hash)); err != nil {
				return nil, err
			}
			classStamp(hash).on(&class.ObjectMeta)
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

// resolve finds out what a class stands for and writes its status. What could be found out is written also when something
// failed.
func (k *Keeper) resolve(ctx context.Context, ref cloud.ClassRef, h handle, before client.Object) (*ec2v1.EC2NodeClass, error) {
	class := h.draft(before)
	resolver, ok := k.o.Provider.(Resolver)
	if !ok {
		return class, nil
	}
	err := resolver.Resolve(ctx, class)
	k.judgeClassLaunches(ref, class)
	object := h.settled(before, class, metav1.NewTime(k.o.Clock.Now()))
	if equal(before, object) {
		return class, err
	}
	if writeErr := k.o.Client.Status().Patch(ctx, object, locked(before)); writeErr != nil {
		return class, errors.Join(err, fmt.Errorf("update status of %s: %w", title(ref), writeErr))
	}
	k.o.Classes.wrote.Mutated(object)
	return class, err
}

// notReady is why a class cannot be used: the first of its conditions that says so; "" if it can.
func notReady(class *ec2v1.EC2NodeClass) string {
	kind := class.Kind
	if kind == "" {
		kind = classKind // objects from a cache do not say
	}
	root := class.StatusConditions(opstatus.WithObservedOnly()).Get(opstatus.ConditionReady)
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

// finalizeClass lets a class go when no claim uses it and the cloud has forgotten it.
func (k *Keeper) finalizeClass(ctx context.Context, ref cloud.ClassRef, h handle, before client.Object) (time.Duration, error) {
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

// afterEnd has the cloud forget a class without a finalizer that is gone, when no claim uses it any more.
func (k *Keeper) afterEnd(ctx context.Context, ref cloud.ClassRef, h handle) (time.Duration, error) {
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

// forgetInCloud removes what was made for a class.
func (k *Keeper) forgetInCloud(ctx context.Context, ref cloud.ClassRef, class *ec2v1.EC2NodeClass) error {
	f, ok := k.o.Provider.(Finalizer)
	if !ok {
		return nil
	}
	if err := f.Finalize(ctx, class); err != nil {
		return fmt.Errorf("finalize %s: %w", title(ref), err)
	}
	return nil
}

// users are the claims of a class.
func (k *Keeper) users(ref cloud.ClassRef) []string {
	var users []string
	for _, c := range k.o.World.Claims() {
		if translate.ClassRef(c.Spec.NodeClassRef) == ref {
			users = append(users, c.Name)
		}
	}
	return users
}

func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
}
