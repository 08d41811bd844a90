package nodeclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Fields that the cache is indexed by.
const (
	byClaimProvider = "status.providerID"
	byNodeProvider  = "spec.providerID"
	byNodeName      = "spec.nodeName"
)

// index has the cache find objects by those fields.
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

// readClaim is the newest known state of a claim, the caller's own copy; nil if there is none.
func (l *Lifecycle) readClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error) {
	claim := &karpv1.NodeClaim{}
	if err := l.o.Cache.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read NodeClaim %s: %w", name, err)
	}
	return l.wroteClaims.Newest(claim).DeepCopy(), nil
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
		out[i] = l.wroteNodes.Newest(&list.Items[i]).DeepCopy()
	}
	return out, nil
}

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t) }
