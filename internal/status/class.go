package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud"
)

// Group and kind of the classes that are kept here.
const (
	classGroup = "karpenter.k8s.aws"
	classKind  = "EC2NodeClass"
)

// resolveEvery is how often the cloud is asked again what a class stands for; prices change the catalogue too.
const resolveEvery = time.Minute

func classRef(name string) cloud.ClassRef {
	return cloud.ClassRef{Group: classGroup, Kind: classKind, Name: name}
}

// class resolves one class and tells the world what it offers.
func (k *Keeper) class(ctx context.Context, name string) (time.Duration, error) {
	found := k.o.Classes.Get(name)
	if found == nil {
		k.offer(name, fmt.Sprintf("EC2NodeClass %q does not exist; create it or correct spec.template.spec.nodeClassRef.name", name))
		return 0, nil
	}
	class := found.DeepCopy()
	if class.DeletionTimestamp != nil {
		k.offer(name, fmt.Sprintf("EC2NodeClass %q is being deleted", name))
		return k.finalizeClass(ctx, class)
	}
	if err := k.stampClass(ctx, class); err != nil {
		return 0, client.IgnoreNotFound(err) // its end is an event
	}
	resolveErr := k.resolve(ctx, class)
	if why := notReady(class); why != "" {
		k.offer(name, why)
		return resolveEvery, resolveErr
	}
	types, err := k.o.Provider.Catalog(ctx, classRef(name))
	switch {
	case errors.Is(err, cloud.ErrClassNotReady):
		k.offer(name, err.Error())
		return resolveEvery, resolveErr
	case err != nil: // what was offered before is still right, more or less
		return 0, errors.Join(resolveErr, fmt.Errorf("catalog of EC2NodeClass %s: %w", name, err))
	}
	k.o.World.SetCatalog(classRef(name), types, "")
	k.touchPools(name)
	return resolveEvery, resolveErr
}

// offer says why a class offers nothing.
func (k *Keeper) offer(name, why string) {
	k.o.World.SetCatalog(classRef(name), nil, why)
	k.touchPools(name)
}

func (k *Keeper) touchPools(class string) {
	for _, pool := range k.o.World.NodePools() {
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil && ref.Name == class {
			k.pools.Add(pool.Name)
		}
	}
}

// stampClass writes finalizer and hash if they are not there.
func (k *Keeper) stampClass(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	before := class.DeepCopy()
	if !slices.Contains(class.Finalizers, ec2v1.TerminationFinalizer) {
		class.Finalizers = append(class.Finalizers, ec2v1.TerminationFinalizer)
	}
	if hash := k.o.ClassHash(class); hash != "" {
		metav1.SetMetaDataAnnotation(&class.ObjectMeta, ec2v1.AnnotationEC2NodeClassHash, hash)
		metav1.SetMetaDataAnnotation(&class.ObjectMeta, ec2v1.AnnotationEC2NodeClassHashVersion, ec2v1.EC2NodeClassHashVersion)
	}
	if equal(before.ObjectMeta, class.ObjectMeta) {
		return nil
	}
	if err := k.o.Client.Patch(ctx, class, locked(before)); err != nil {
		return fmt.Errorf("update EC2NodeClass %s: %w", class.Name, err)
	}
	k.o.Classes.wrote.Wrote(class.DeepCopy())
	return nil
}

// resolve fills and writes the class's status. What could be found out is written also when something failed.
func (k *Keeper) resolve(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	resolver, ok := k.o.Provider.(Resolver)
	if !ok {
		return nil
	}
	before := class.DeepCopy()
	err := resolver.Resolve(ctx, class)
	if equal(before.Status, class.Status) {
		return err
	}
	if writeErr := k.o.Client.Status().Patch(ctx, class, locked(before)); writeErr != nil {
		return errors.Join(err, fmt.Errorf("update status of EC2NodeClass %s: %w", class.Name, writeErr))
	}
	k.o.Classes.wrote.Wrote(class.DeepCopy())
	return err
}

// notReady is why a class cannot be used: the first of its conditions that says so; "" if it can.
func notReady(class *ec2v1.EC2NodeClass) string {
	root := class.StatusConditions(opstatus.WithObservedOnly()).Get(opstatus.ConditionReady)
	if root != nil && root.Status == metav1.ConditionTrue {
		return ""
	}
	for _, want := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, c := range class.Status.Conditions {
			if c.Type != opstatus.ConditionReady && c.Status == want {
				return fmt.Sprintf("EC2NodeClass %q is not ready: %s: %s", class.Name, c.Type, c.Message)
			}
		}
	}
	return fmt.Sprintf("EC2NodeClass %q is not resolved yet", class.Name)
}

// finalizeClass lets a class go when no claim uses it and the cloud has forgotten it.
func (k *Keeper) finalizeClass(ctx context.Context, class *ec2v1.EC2NodeClass) (time.Duration, error) {
	if !slices.Contains(class.Finalizers, ec2v1.TerminationFinalizer) {
		return 0, nil
	}
	var users []string
	for _, c := range k.o.World.Claims() {
		if ref := c.Spec.NodeClassRef; ref != nil && ref.Kind == classKind && ref.Name == class.Name {
			users = append(users, c.Name)
		}
	}
	if len(users) > 0 {
		k.o.Recorder.Event(class, corev1.EventTypeNormal, "WaitingOnNodeClaimTermination",
			"Waiting on NodeClaim termination for "+strings.Join(users[:min(len(users), 5)], ", "))
		return 5 * time.Second, nil
	}
	if f, ok := k.o.Provider.(Finalizer); ok {
		if err := f.Finalize(ctx, class); err != nil {
			return 0, fmt.Errorf("finalize EC2NodeClass %s: %w", class.Name, err)
		}
	}
	before := class.DeepCopy()
	class.Finalizers = slices.DeleteFunc(class.Finalizers, func(f string) bool { return f == ec2v1.TerminationFinalizer })
	if err := k.o.Client.Patch(ctx, class, locked(before)); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("release EC2NodeClass %s: %w", class.Name, err)
	}
	k.o.Classes.wrote.Forget(class.UID)
	return 0, nil
}

func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
}
