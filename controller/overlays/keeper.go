package overlays

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Source says what is wrong with which overlay; *world.World is one.
type Source interface {
	OverlayVerdicts() map[string]Verdict
}

// Keeper writes verdicts into the conditions of NodeOverlays.
type Keeper struct {
	cache  cache.Cache
	client client.Client
	source Source
	queue  *workqueue.Queue
	wrote  mutationcache.Cache[*v1alpha1.NodeOverlay]
}

// New is a Keeper.
func New(c cache.Cache, api client.Client, source Source, clk clock.Clock, log *slog.Logger) *Keeper {
	return &Keeper{cache: c, client: api, source: source, queue: workqueue.New("NodeOverlay", clk, log)}
}

// Decided has the verdicts of the newest snapshot written.
func (k *Keeper) Decided() {
	for name := range k.source.OverlayVerdicts() {
		k.queue.Add(name)
	}
}

// Run works until ctx is done. The cache must be synced.
func (k *Keeper) Run(ctx context.Context) error {
	k.Decided()
	k.queue.Run(ctx, 2, func(ctx context.Context, name string) (time.Duration, error) { return 0, k.overlay(ctx, name) })
	return nil
}

func (k *Keeper) overlay(ctx context.Context, name string) error {
	verdict, known := k.source.OverlayVerdicts()[name]
	if !known {
		return nil
	}
	cached := &v1alpha1.NodeOverlay{}
	if err := k.cache.Get(ctx, client.ObjectKey{Name: name}, cached); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read NodeOverlay %s: %w", name, err)
	}
	o := k.wrote.Newest(cached).DeepCopy()
	before := o.DeepCopy()
	conditions := o.StatusConditions()
	if verdict.Reason != "" {
		conditions.SetFalse(v1alpha1.ConditionTypeValidationSucceeded, verdict.Reason, verdict.Message)
	} else {
		conditions.SetTrue(v1alpha1.ConditionTypeValidationSucceeded)
	}
	if equality.Semantic.DeepEqual(before.Status, o.Status) {
		return nil
	}
	if err := k.client.Status().Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	k.wrote.Mutated(o.DeepCopy())
	return nil
}
