package lifecycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kube"
)

// Fields that the cache is indexed by.
const (
	byClaimProvider = "status.providerID"
	byNodeProvider  = "spec.providerID"
	byNodeName      = "spec.nodeName"
)

func (l *Lifecycle) index(ctx context.Context) error {
	for _, i := range []struct {
		object client.Object
		field  string
		value  func(client.Object) string
	}{
		{&karpv1.NodeClaim{}, byClaimProvider, func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.ProviderID }},
		{&corev1.Node{}, byNodeProvider, func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		{&corev1.Pod{}, byNodeName, func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
		{&storagev1.VolumeAttachment{}, byNodeName, func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName }},
	} {
		err := l.o.Cache.IndexField(ctx, i.object, i.field, func(o client.Object) []string {
			if v := i.value(o); v != "" {
				return []string{v}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index %T: %w", i.object, err)
		}
	}
	return nil
}

func (l *Lifecycle) watch(ctx context.Context) error {
	for _, h := range []struct {
		object client.Object
		seen   func(old, now client.Object) // one of them nil if it came or went
	}{
		{&karpv1.NodeClaim{}, l.whileLeading(l.sawClaim)},
		{&corev1.Node{}, l.sawNode},
		{&corev1.Pod{}, l.sawPod},
		{&storagev1.VolumeAttachment{}, l.whileLeading(l.sawAttachment)},
		{&karpv1.NodePool{}, l.whileLeading(l.sawPool)},
	} {
		informer, err := l.o.Cache.GetInformer(ctx, h.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", h.object, err)
		}
		if _, err := informer.AddEventHandler(handler(h.seen)); err != nil {
			return fmt.Errorf("watch %T: %w", h.object, err)
		}
	}
	return nil
}

// whileLeading lets events through once this process acts: until then nobody works on the queues, and one that stands by for
// months would gather the name of every machine there ever was. What is there when its time comes it reads from the cache.
func (l *Lifecycle) whileLeading(seen func(old, now client.Object)) func(old, now client.Object) {
	return func(old, now client.Object) {
		if l.leads.Load() {
			seen(old, now)
		}
	}
}

func handler(seen func(old, now client.Object)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if now, ok := o.(client.Object); ok {
				seen(nil, now)
			}
		},
		UpdateFunc: func(o, n any) {
			old, ok1 := o.(client.Object)
			now, ok2 := n.(client.Object)
			if ok1 && ok2 {
				seen(old, now)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if old, ok := o.(client.Object); ok {
				seen(old, nil)
			}
		},
	}
}

func (l *Lifecycle) sawClaim(old, now client.Object) {
	if now == nil {
		now = old
		l.wroteClaims.Forget(old.GetUID())
	} else if claim := now.(*karpv1.NodeClaim); claim.Status.ProviderID != "" && (old == nil || old.(*karpv1.NodeClaim).Status.ProviderID == "") {
		l.wakeDeparting(claim.Name)
	}
	l.claims.Add(now.GetName())
}

func (l *Lifecycle) sawNode(old, now client.Object) {
	if now == nil {
		l.wroteNodes.Forget(old.GetUID())
		l.mu.Lock()
		delete(l.podEvents, old.GetName())
		delete(l.refusals, old.GetName())
		l.mu.Unlock()
		l.addClaimOf(old.(*corev1.Node))
		return
	}
	node := now.(*corev1.Node)
	if old != nil && !l.nodeMatters(old.(*corev1.Node), node) {
		return
	}
	l.noteRefusal(node)
	if node.DeletionTimestamp != nil && l.leads.Load() {
		l.nodes.Add(node.Name)
	}
	l.addClaimOf(node)
}

// nodeMatters reports whether a change of a Node is more than a heartbeat.
func (l *Lifecycle) nodeMatters(old, now *corev1.Node) bool {
	if l.repairs() {
		was, wasDue := broken(old, l.policies)
		if is, due := broken(now, l.policies); is != was || !due.Equal(wasDue) {
			return true
		}
	}
	return old.Spec.ProviderID != now.Spec.ProviderID || old.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		!equal(old.Spec.Taints, now.Spec.Taints) || !equal(old.Labels, now.Labels) || !equal(old.Finalizers, now.Finalizers) ||
		!equal(old.OwnerReferences, now.OwnerReferences) || !equal(old.Status.Allocatable, now.Status.Allocatable) || isReady(old) != isReady(now)
}

func isReady(node *corev1.Node) bool {
	_, ok := kube.ReadySince(node)
	return ok
}

// addClaimOf has the claims of a Node looked at.
func (l *Lifecycle) addClaimOf(node *corev1.Node) {
	if !l.leads.Load() {
		return
	}
	if name := claimOwner(node); name != "" {
		l.claims.Add(name)
		return
	}
	claims, err := l.claimsOf(context.Background(), node.Spec.ProviderID)
	if err != nil {
		return // the cache has not started: every claim will be looked at anyway
	}
	for i := range claims {
		l.claims.Add(claims[i].Name)
	}
}

func claimOwner(node *corev1.Node) string {
	for _, o := range node.OwnerReferences {
		if o.Kind == "NodeClaim" {
			return o.Name
		}
	}
	return ""
}

// sawPod notes when pods come to and go from machines, and wakes a drain.
func (l *Lifecycle) sawPod(old, now client.Object) {
	pod, _ := now.(*corev1.Pod)
	was, _ := old.(*corev1.Pod)
	any := pod
	if any == nil {
		any = was
	}
	name := any.Spec.NodeName
	if name == "" {
		return
	}
	at, counts := l.podEvent(was, pod)
	node := l.o.World.Node(name)
	if counts && (pod != nil || node != nil) { // not of a Node that went first
		l.mu.Lock()
		if at.After(l.podEvents[name]) {
			l.podEvents[name] = at
		}
		l.mu.Unlock()
	}
	switch {
	case node == nil || !l.leads.Load(): // its claim is looked at when it comes, or when we lead
		return
	case counts:
		l.addClaimOf(node)
	}
	if node.DeletionTimestamp != nil {
		l.nodes.Add(name)
	}
}

// podEvent is when a pod came or went, if this change says so. DaemonSets' pods do not count.
func (l *Lifecycle) podEvent(was, pod *corev1.Pod) (time.Time, bool) {
	if pod == nil {
		before := kube.ReadPod(was)
		return l.now(), !before.Daemon() && !before.Terminal && !before.Deleting
	}
	p := kube.ReadPod(pod)
	switch {
	case p.Daemon():
		return time.Time{}, false
	case was == nil:
		return p.Event, !p.Event.IsZero()
	}
	before := kube.ReadPod(was)
	changed := before.Node != p.Node || before.Terminal != p.Terminal || before.Deleting != p.Deleting
	return l.now(), changed
}

func (l *Lifecycle) sawAttachment(old, now client.Object) {
	if old != nil && now == nil {
		l.nodes.Add(old.(*storagev1.VolumeAttachment).Spec.NodeName)
	}
}

// sawPool has a pool's claims looked at when it comes or goes or something changes that they are compared with.
func (l *Lifecycle) sawPool(old, now client.Object) {
	if now == nil {
		l.mu.Lock()
		delete(l.templates, old.GetUID())
		l.mu.Unlock()
		old, now = nil, old
	}
	if old != nil && old.GetGeneration() == now.GetGeneration() && old.GetDeletionTimestamp().IsZero() == now.GetDeletionTimestamp().IsZero() &&
		old.GetAnnotations()[karpv1.NodePoolHashVersionAnnotationKey] == now.GetAnnotations()[karpv1.NodePoolHashVersionAnnotationKey] {
		return
	}
	for _, c := range l.o.World.Claims() {
		if c.Labels[karpv1.NodePoolLabelKey] == now.GetName() {
			l.claims.Add(c.Name)
		}
	}
}

// readClaim is the newest known state of a claim, the caller's own copy; nil if there is none.
func (l *Lifecycle) readClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error) {
	claim := &karpv1.NodeClaim{}
	if err := l.o.Cache.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read NodeClaim %s: %w", name, err)
	}
	return l.wroteClaims.Of(claim).DeepCopy(), nil
}

// claimsOf is the claims with a provider ID.
func (l *Lifecycle) claimsOf(ctx context.Context, providerID string) ([]karpv1.NodeClaim, error) {
	if providerID == "" {
		return nil, nil
	}
	var list karpv1.NodeClaimList
	if err := l.o.Cache.List(ctx, &list, client.MatchingFields{byClaimProvider: providerID}); err != nil {
		return nil, fmt.Errorf("find NodeClaim of %s: %w", providerID, err)
	}
	return list.Items, nil
}

// nodesOf is the newest known state of the Nodes with a provider ID.
func (l *Lifecycle) nodesOf(ctx context.Context, providerID string) ([]*corev1.Node, error) {
	if providerID == "" {
		return nil, nil
	}
	var list corev1.NodeList
	if err := l.o.Cache.List(ctx, &list, client.MatchingFields{byNodeProvider: providerID}); err != nil {
		return nil, fmt.Errorf("find Node of %s: %w", providerID, err)
	}
	out := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		out[i] = l.wroteNodes.Of(&list.Items[i]).DeepCopy()
	}
	return out, nil
}

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t) }
