package metrics

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/internal/kit/informer"
)

// watch calls saw with each state of each object of a kind, old is nil for the first, and gone with its last.
func watch(ctx context.Context, from cache.Cache, object client.Object, saw func(old, now client.Object),
	gone func(client.Object),
) error {
	err := informer.Watch(ctx, from, object, func(old, now client.Object) {
		if now == nil {
			gone(old)
			return
		}
		saw(old, now)
	})
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Watch measures the pods of a cache from now on.
func (p *PodTimes) Watch(ctx context.Context, from cache.Cache) error {
	return watch(ctx, from, &corev1.Pod{},
		func(_, now client.Object) { p.Saw(now.(*corev1.Pod)) }, func(o client.Object) { p.Gone(o.(*corev1.Pod)) })
}
