package overlays

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Source says what is wrong with which overlay; the cluster state is one.
type Source interface {
	OverlayVerdicts() map[string]Verdict
}

// StatusController writes verdicts into the conditions of NodeOverlays.
type StatusController struct {
	cache  cache.Cache
	client client.Client
	source Source
	queue  *workqueue.Queue
	wrote  mutationcache.Cache[*v1alpha1.NodeOverlay]
}

// New returns a StatusController.
func New(cached cache.Cache, api client.Client, source Source, clk clock.Clock, log *slog.Logger) *StatusController {
	return &StatusController{cache: cached, client: api, source: source, queue: workqueue.New("NodeOverlay", clk, log)}
}

// Decided has the verdicts of the newest snapshot written.
func (c *StatusController) Decided() {
	for name := range c.source.OverlayVerdicts() {
		c.queue.Add(name)
	}
}

// Run works until ctx is done. The cache must be synced.
func (c *StatusController) Run(ctx context.Context) error {
	c.Decided()
	c.queue.Run(ctx, 2, func(ctx context.Context, name string) (time.Duration, error) { return 0, c.overlay(ctx, name) })
	return nil
}

func (c *StatusController) overlay(ctx context.Context, name string) error {
	verdict, known := c.source.OverlayVerdicts()[name]
	if !known {
		return nil
	}
	cached := &v1alpha1.NodeOverlay{}
	if err := c.cache.Get(ctx, client.ObjectKey{Name: name}, cached); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read NodeOverlay %s: %w", name, err)
	}
	o := c.wrote.Newest(cached).DeepCopy()
	before := o.DeepCopy()
	conditions := o.StatusConditions()
	if verdict.Reason != "" {
		conditions.SetFalse(v1alpha1.ConditionTypeValidationSucceeded, verdict.Reason, verdict.Message)
	} else {
		conditions.SetTrue(v1alpha1.ConditionTypeValidationSucceeded)
	}
	_, err := c.wrote.PatchStatus(ctx, c.client, before, o)
	return client.IgnoreNotFound(err)
}
