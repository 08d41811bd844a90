package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// Attach feeds the State from a cache's informers and returns once it has seen every object. The cache is
// started by the caller, before or meanwhile.
func (s *State) Attach(ctx context.Context, c cache.Cache) error {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.handleUpdate,
		UpdateFunc: func(_, now any) { s.handleUpdate(now) },
		DeleteFunc: s.handleDelete,
	}
	var synced []toolscache.InformerSynced
	kinds := []client.Object{
		&karpv1.NodePool{}, &karpv1.NodeClaim{}, &corev1.Node{}, &appsv1.DaemonSet{}, &corev1.LimitRange{}, &corev1.Pod{},
		&corev1.Namespace{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.CSINode{},
		&policyv1.PodDisruptionBudget{},
	}
	if s.watchOverlays {
		kinds = append(kinds, &v1alpha1.NodeOverlay{})
	}
	for _, kind := range kinds {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("watch the cluster: %w", context.Cause(ctx))
	}
	return nil
}

func (s *State) handleUpdate(o any) {
	if object, ok := o.(client.Object); ok {
		s.Update(object)
	}
}

func (s *State) handleDelete(o any) {
	if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	if object, ok := o.(client.Object); ok {
		s.Delete(object)
	}
}
