package status

import (
	"context"
	"fmt"
	"time"

	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// poolPause is how long after a write a pool's status is not written again.
const poolPause = time.Second

// pool brings one NodePool's hash, conditions and sums up to date.
func (k *Keeper) pool(ctx context.Context, name string) (time.Duration, error) {
	if wait := k.pause(name); wait > 0 {
		return wait, nil
	}
	cached := &karpv1.NodePool{}
	if err := k.o.Cache.Get(ctx, client.ObjectKey{Name: name}, cached); err != nil {
		if apierrors.IsNotFound(err) {
			k.forgetPool(name)
			return 0, nil
		}
		return 0, fmt.Errorf("read NodePool %s: %w", name, err)
	}
	pool := k.wrotePools.Newest(cached).DeepCopy()
	if err := k.stampPool(ctx, pool); err != nil {
		return 0, err
	}
	before := pool.DeepCopy()
	k.judge(ctx, pool)
	k.judgeWishes(pool)
	k.judgeKeys(pool)
	k.judgeHealth(pool)
	k.judgeLaunches(pool)
	k.sum(pool)
	if equal(before.Status, pool.Status) {
		return 0, nil
	}
	if err := k.o.Client.Status().Patch(ctx, pool, locked(before)); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	k.wrotePools.Mutated(pool.DeepCopy())
	k.mu.Lock()
	k.lastPool[name] = k.o.Clock.Now()
	k.mu.Unlock()
	return 0, nil
}

// pause is how long a pool's status is still left alone.
func (k *Keeper) pause(name string) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lastPool[name].Add(poolPause).Sub(k.o.Clock.Now())
}

// forgetPool drops what is remembered of a pool that is gone.
func (k *Keeper) forgetPool(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.lastPool, name)
	delete(k.health, name)
}

func (k *Keeper) stampPool(ctx context.Context, pool *karpv1.NodePool) error {
	before, s := pool.DeepCopy(), poolStamp(pool)
	if err := k.restampPool(ctx, pool, s); err != nil {
		return err
	}
	s.on(&pool.ObjectMeta)
	if equal(before.ObjectMeta, pool.ObjectMeta) {
		return nil
	}
	if err := k.o.Client.Patch(ctx, pool, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotate NodePool %s: %w", pool.Name, err)
	}
	k.wrotePools.Mutated(pool.DeepCopy())
	return nil
}

// judge sets the conditions.
func (k *Keeper) judge(ctx context.Context, pool *karpv1.NodePool) {
	conditions := pool.StatusConditions()
	err := pool.RuntimeValidate(ctx)
	if err != nil {
		err = fmt.Errorf("spec.template: %w", err) // all that it looks at is there
	} else {
		_, err = k.o.World.Names().Pool(pool, translate.PoolState{Now: k.o.Clock.Now()})
	}
	if err != nil {
		conditions.SetFalse(karpv1.ConditionTypeValidationSucceeded, "NodePoolValidationFailed", err.Error())
	} else {
		conditions.SetTrue(karpv1.ConditionTypeValidationSucceeded)
	}
	reason, message := k.classVerdict(pool)
	if reason != "" {
		conditions.SetFalse(karpv1.ConditionTypeNodeClassReady, reason, message)
	} else {
		conditions.SetTrue(karpv1.ConditionTypeNodeClassReady)
	}
}

// classVerdict is why the pool's class cannot be used; "" if it can.
func (k *Keeper) classVerdict(pool *karpv1.NodePool) (reason, message string) {
	ref := translate.ClassRef(pool.Spec.Template.Spec.NodeClassRef)
	if k.o.Classes.handle(ref) == nil {
		return "NodeClassNotFound", k.o.Classes.unknown(ref)
	}
	class := k.o.Classes.Get(ref)
	switch {
	case class == nil:
		return "NodeClassNotFound", title(ref) + " does not exist; create it or correct spec.template.spec.nodeClassRef.name"
	case class.DeletionTimestamp != nil:
		return "NodeClassTerminating", title(ref) + " is being deleted"
	}
	why := notReady(class)
	root := class.StatusConditions(opstatus.WithObservedOnly()).Get(opstatus.ConditionReady)
	switch {
	case why == "":
		return "", ""
	case root == nil || root.IsUnknown():
		return "NodeClassReadinessUnknown", why
	}
	return "NodeClassNotReady", why
}

// sum fills in what the pool's machines have together.
func (k *Keeper) sum(pool *karpv1.NodePool) {
	used, nodes := k.o.World.PoolUsage(pool.Name)
	list := k.o.World.Names().ResourceList(used)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
		if _, some := list[name]; !some {
			list[name] = resource.Quantity{}
		}
	}
	list[corev1.ResourceName("nodes")] = *resource.NewQuantity(nodes, resource.DecimalSI)
	pool.Status.Resources, pool.Status.Nodes = list, &nodes
	if class := k.o.Classes.Get(translate.ClassRef(pool.Spec.Template.Spec.NodeClassRef)); class != nil {
		pool.Status.NodeClassObservedGeneration = class.Generation
	}
}
