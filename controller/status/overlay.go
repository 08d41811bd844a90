package status

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// overlayReconciler writes the verdicts on NodeOverlays into their conditions.
type overlayReconciler struct {
	o     *Options
	queue *workqueue.Queue
	wrote mutationcache.Cache[*v1alpha1.NodeOverlay]
}

func newOverlayReconciler(o *Options) *overlayReconciler {
	return &overlayReconciler{o: o, queue: workqueue.New("NodeOverlay", o.Clock, o.Log)}
}

func (ov *overlayReconciler) enqueueAll() {
	for name := range ov.o.Cluster.OverlayVerdicts() {
		ov.queue.Add(name)
	}
}

func (ov *overlayReconciler) reconcile(ctx context.Context, name string) (time.Duration, error) {
	verdict, known := ov.o.Cluster.OverlayVerdicts()[name]
	if !known {
		return 0, nil
	}
	cached := &v1alpha1.NodeOverlay{}
	if err := ov.o.Cache.Get(ctx, client.ObjectKey{Name: name}, cached); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("read NodeOverlay %s: %w", name, err)
	}
	before := ov.wrote.Newest(cached)
	overlay := before.DeepCopy()
	if verdict.Reason != "" {
		overlay.StatusConditions().SetFalse(v1alpha1.ConditionTypeValidationSucceeded, verdict.Reason, verdict.Message)
	} else {
		overlay.StatusConditions().SetTrue(v1alpha1.ConditionTypeValidationSucceeded)
	}
	_, err := ov.wrote.PatchStatus(ctx, ov.o.Client, before, overlay)
	return 0, client.IgnoreNotFound(err)
}
