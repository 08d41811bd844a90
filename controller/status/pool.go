package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// poolPause is the minimum time between two writes of a pool's status.
const poolPause = time.Second

// poolReconciler maintains the hash, conditions and sums of NodePools.
type poolReconciler struct {
	o     *Options
	queue *workqueue.Queue // by name
	wrote mutationcache.Cache[*karpv1.NodePool]

	mu    sync.Mutex
	state map[string]*poolState // by name
}

// poolState is the state kept for one pool.
type poolState struct {
	uid     types.UID
	written time.Time // when its status was last written
	health
}

func newPoolReconciler(o *Options) *poolReconciler {
	return &poolReconciler{o: o, queue: workqueue.New("NodePool status", o.Clock, o.Log), state: map[string]*poolState{}}
}

// reconcile updates one NodePool.
func (p *poolReconciler) reconcile(ctx context.Context, name string) (time.Duration, error) {
	if wait := p.pause(name); wait > 0 {
		return wait, nil
	}
	cached := &karpv1.NodePool{}
	if err := p.o.Cache.Get(ctx, client.ObjectKey{Name: name}, cached); err != nil {
		if apierrors.IsNotFound(err) {
			p.forget(name)
			return 0, nil
		}
		return 0, fmt.Errorf("read NodePool %s: %w", name, err)
	}
	pool := p.wrote.Newest(cached).DeepCopy()
	if !p.o.Cluster.Manages(pool.Spec.Template.Spec.NodeClassRef) {
		return 0, p.rejectUnserved(ctx, pool)
	}
	if err := p.stamp(ctx, pool); err != nil {
		return 0, err
	}
	before := pool.DeepCopy()
	p.validate(ctx, pool)
	p.judgeAnnotations(pool)
	p.judgeKeys(pool)
	// Read once: a generation that sum records has been judged.
	class := p.o.Classes.Get(cluster.ClassRef(pool.Spec.Template.Spec.NodeClassRef))
	p.judgeHealth(pool, class)
	p.judgeLaunches(pool)
	p.judgePreflight(pool)
	p.judgePodNetwork(pool)
	p.judgeWarmTargets(pool)
	p.sum(pool, class)
	changed, err := p.wrote.PatchStatus(ctx, p.o.Client, before, pool)
	if changed {
		p.mu.Lock()
		p.stateOf(name, pool.UID).written = p.o.Clock.Now()
		p.mu.Unlock()
	}
	return 0, client.IgnoreNotFound(err)
}

// rejectUnserved says on a pool that is not managed here that the API server does not serve the kind of its class: no
// controller can know it. If it does, the pool is left to its controller.
func (p *poolReconciler) rejectUnserved(ctx context.Context, pool *karpv1.NodePool) error {
	ref := cluster.ClassRef(pool.Spec.Template.Spec.NodeClassRef)
	_, err := p.o.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	switch {
	case err == nil:
		return nil
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("whether the API server serves %s of group %q: %w", ref.Kind, ref.Group, err)
	}
	before := pool.DeepCopy()
	pool.StatusConditions().SetFalse(karpv1.ConditionTypeNodeClassReady, "NodeClassNotFound", p.o.Classes.unknown(ref))
	_, err = p.wrote.PatchStatus(ctx, p.o.Client, before, pool)
	return client.IgnoreNotFound(err)
}

// stateOf returns the state of a pool, a new one if there is none; p.mu must be held.
func (p *poolReconciler) stateOf(name string, uid types.UID) *poolState {
	s := p.state[name]
	if s == nil || s.uid != uid {
		s = &poolState{uid: uid}
		p.state[name] = s
	}
	return s
}

// pause returns how long a pool's status must not be written yet.
func (p *poolReconciler) pause(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.state[name]; s != nil {
		return s.written.Add(poolPause).Sub(p.o.Clock.Now())
	}
	return 0
}

func (p *poolReconciler) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.state, name)
}

// stamp writes a pool's hash on it, and makes its claims carry hashes that can be compared with it.
func (p *poolReconciler) stamp(ctx context.Context, pool *karpv1.NodePool) error {
	before := pool.DeepCopy()
	s := stamp{
		karpv1.NodePoolHashAnnotationKey, karpv1.NodePoolHashVersionAnnotationKey, pool.Hash(),
		karpv1.NodePoolHashVersion,
	}
	ours := func(c *karpv1.NodeClaim) bool { return c.Labels[karpv1.NodePoolLabelKey] == pool.Name }
	if err := s.restamp(ctx, p.o, ours); err != nil {
		return err
	}
	s.on(pool)
	if equal(before.ObjectMeta, pool.ObjectMeta) {
		return nil
	}
	if err := p.o.Client.Patch(ctx, pool, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotate NodePool %s: %w", pool.Name, err)
	}
	p.wrote.Mutated(pool.DeepCopy())
	return nil
}

// validate sets the conditions ValidationSucceeded and NodeClassReady.
func (p *poolReconciler) validate(ctx context.Context, pool *karpv1.NodePool) {
	found := pool.StatusConditions()
	err := pool.RuntimeValidate(ctx)
	if err != nil {
		err = fmt.Errorf("spec.template: %w", err) // RuntimeValidate checks only that part
	} else {
		_, err = p.o.Cluster.Names().Pool(pool, translate.PoolState{Now: p.o.Clock.Now()})
	}
	off := p.o.Cluster.StaticOff(pool)
	switch {
	case err != nil:
		found.SetFalse(karpv1.ConditionTypeValidationSucceeded, "NodePoolValidationFailed", err.Error())
	case off != "":
		found.SetFalse(karpv1.ConditionTypeValidationSucceeded, "StaticCapacityDisabled", off+": no node is launched; run "+
			"the controller with --feature-gates StaticCapacity=true (the chart's settings.featureGates.staticCapacity)")
	default:
		found.SetTrue(karpv1.ConditionTypeValidationSucceeded)
	}
	reason, message := p.classVerdict(pool)
	if reason != "" {
		found.SetFalse(karpv1.ConditionTypeNodeClassReady, reason, message)
	} else {
		found.SetTrue(karpv1.ConditionTypeNodeClassReady)
	}
}

// classVerdict returns why the pool's class cannot be used; "" if it can.
func (p *poolReconciler) classVerdict(pool *karpv1.NodePool) (reason, message string) {
	ref := cluster.ClassRef(pool.Spec.Template.Spec.NodeClassRef)
	if p.o.Classes.handle(ref) == nil {
		return "NodeClassNotFound", p.o.Classes.unknown(ref)
	}
	class := p.o.Classes.Get(ref)
	switch {
	case class == nil:
		return "NodeClassNotFound", title(ref) + " does not exist; create it or correct spec.template.spec.nodeClassRef.name"
	case class.DeletionTimestamp != nil:
		return "NodeClassTerminating", title(ref) + " is being deleted"
	}
	why := notReady(class)
	root := conditions.Of(class, opstatus.ConditionReady)
	switch {
	case why == "":
		return "", ""
	case root == nil || root.IsUnknown():
		return "NodeClassReadinessUnknown", why
	}
	return "NodeClassNotReady", why
}

// sum writes the totals of the pool's nodes, and the generation of its class, which may be nil.
func (p *poolReconciler) sum(pool *karpv1.NodePool, class *ec2v1.EC2NodeClass) {
	used, nodes := p.o.Cluster.PoolUsage(pool.Name)
	list := p.o.Cluster.Names().ResourceList(used)
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods,
		corev1.ResourceEphemeralStorage,
	} {
		if _, some := list[name]; !some {
			list[name] = resource.Quantity{}
		}
	}
	list[corev1.ResourceName("nodes")] = *resource.NewQuantity(nodes, resource.DecimalSI)
	pool.Status.Resources, pool.Status.Nodes = list, &nodes
	if class != nil {
		pool.Status.NodeClassObservedGeneration = class.Generation
	}
}
