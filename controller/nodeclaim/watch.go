package nodeclaim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/informer"
)

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
		if err := informer.Watch(ctx, l.o.Cache, h.object, h.seen); err != nil {
			return err
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
	_, ok := translate.ReadySince(node)
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
		before := translate.ReadPod(was)
		return l.now(), !before.Daemon() && !before.Terminal && !before.Deleting
	}
	p := translate.ReadPod(pod)
	switch {
	case p.Daemon():
		return time.Time{}, false
	case was == nil:
		return p.Event, !p.Event.IsZero()
	}
	before := translate.ReadPod(was)
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
