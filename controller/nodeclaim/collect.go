package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// How often garbage is collected, often at first and rarely later, and how old it must be
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/garbagecollection).
const (
	collectOften  = 10 * time.Second
	collectRarely = 2 * time.Minute
	oftenRuns     = 20
	minAge        = 30 * time.Second
)

// collector collects leftovers: instances without claim, claims without instance, Nodes without either, labels of
// capacity reservations that have ended, and records of objects that are gone.
type collector struct {
	*objects
	instances *instances
	launches  *launcher
	outcomes  *launchOutcomes
}

// run collects until ctx is done.
func (g *collector) run(ctx context.Context, drift *driftDetector) {
	runs := 0
	g.every(ctx, func() time.Duration {
		if runs > 0 {
			if err := errors.Join(g.collect(ctx), g.forget(ctx, drift)); err != nil && ctx.Err() == nil {
				g.log.Warn("garbage collection failed; trying again", "error", err)
			}
		}
		runs++
		if runs > oftenRuns {
			return collectRarely
		}
		return collectOften
	})
}

// forget drops the records of objects that disappeared unnoticed: claims without finalizer, Nodes without claim.
func (g *collector) forget(ctx context.Context, drift *driftDetector) error {
	l, err := g.living(ctx)
	if err != nil {
		return err
	}
	g.state.retain(l)
	drift.retain(l)
	return nil
}

// collect removes instances without claim, claims without instance and Nodes without either, and relabels those whose
// capacity reservation has ended.
func (g *collector) collect(ctx context.Context) error {
	all, err := g.instances.lister.Read(ctx)
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	there := map[string]bool{}
	var failed []error
	for _, i := range all {
		there[i.ID] = true
		failed = append(failed, g.collectInstance(ctx, i), g.demote(ctx, i))
	}
	for _, claim := range g.cluster.Claims() {
		failed = append(failed, g.collectClaim(ctx, claim, there))
	}
	var nodes corev1.NodeList
	ours := client.HasLabels{karpv1.NodePoolLabelKey}
	if err := g.cache.List(ctx, &nodes, ours, client.UnsafeDisableDeepCopy); err != nil {
		return errors.Join(append(failed, fmt.Errorf("list Nodes: %w", err))...)
	}
	for i := range nodes.Items {
		failed = append(failed, g.collectNode(ctx, &nodes.Items[i], there))
	}
	return errors.Join(failed...)
}

func (g *collector) isYoung(since time.Time) bool { return g.until(since, minAge) > 0 }

// collectInstance terminates an instance whose claim is gone or names another instance. The list that i is from may be
// older than the end of the claim: an instance that has been released meanwhile stays.
func (g *collector) collectInstance(ctx context.Context, i cloud.Instance) error {
	if g.isYoung(i.Launched) || i.State == cloud.Terminating || i.State == cloud.Terminated || i.Claim == "" ||
		g.launches.isInFlight(i.Claim) {
		return nil
	}
	if claim := g.cluster.Claim(i.Claim); claim != nil && !namesAnother(claim, i) {
		return nil
	}
	claim := &karpv1.NodeClaim{} // the cache may be late: check with the API server before terminating for good
	switch err := g.client.Get(ctx, client.ObjectKey{Name: i.Claim}, claim); {
	case err == nil && !namesAnother(claim, i):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("look for NodeClaim %s of instance %s: %w", i.Claim, i.ID, err)
	}
	switch now, err := g.instances.cloud.Get(ctx, i.ID); {
	case errors.Is(err, cloud.ErrNotFound), err == nil && now.Claim != i.Claim:
		return nil
	case err != nil:
		return fmt.Errorf("look for instance %s, which has no NodeClaim: %w", i.ID, err)
	}
	g.log.Info("terminate an instance without NodeClaim", "instance", i.ID, "nodeclaim", i.Claim)
	if err := g.instances.cloud.Terminate(ctx, i.ID); err != nil && !errors.Is(err, cloud.ErrNotFound) {
		return fmt.Errorf("terminate %s, which has no NodeClaim: %w", i.ID, err)
	}
	// Otherwise its pods would count as running until it is NotReady.
	for _, node := range g.cluster.NodesByProviderID(i.ProviderID) {
		if err := g.delete(ctx, node); err != nil {
			return fmt.Errorf("delete Node %s of instance %s, which has no NodeClaim: %w", node.Name, i.ID, err)
		}
	}
	return nil
}

// namesAnother reports whether a claim names another instance.
func namesAnother(claim *karpv1.NodeClaim, i cloud.Instance) bool {
	return claim.Status.ProviderID != "" && catalog.InstanceID(claim.Status.ProviderID) != i.ID
}

// collectClaim deletes a claim whose instance is gone. A claim without an instance is left to the launcher.
func (g *collector) collectClaim(ctx context.Context, claim *karpv1.NodeClaim, there map[string]bool) error {
	id := catalog.InstanceID(claim.Status.ProviderID)
	if id == "" || there[id] || claim.DeletionTimestamp != nil || g.isYoung(launchedAt(claim)) {
		return nil
	}
	for _, node := range g.cluster.NodesByProviderID(claim.Status.ProviderID) {
		if conditions.NodeReady(node) {
			return nil
		}
	}
	gone, err := g.instances.isGone(ctx, id)
	if !gone || err != nil {
		return err
	}
	g.outcomes.ended(ctx, claim)
	return g.deleteClaim(ctx, claim, "garbage_collected")
}

func launchedAt(claim *karpv1.NodeClaim) time.Time {
	if c := conditions.Of(claim, karpv1.ConditionTypeLaunched); c != nil {
		return c.LastTransitionTime.Time
	}
	return claim.CreationTimestamp.Time
}

// collectNode deletes a Node of ours that has neither a claim nor an instance.
func (g *collector) collectNode(ctx context.Context, node *corev1.Node, there map[string]bool) error {
	id := catalog.InstanceID(node.Spec.ProviderID)
	if id == "" || there[id] || conditions.NodeReady(node) || node.DeletionTimestamp != nil ||
		g.isYoung(node.CreationTimestamp.Time) || g.cluster.ClaimByProviderID(node.Spec.ProviderID) != nil ||
		!g.cluster.ManagesNode(node) {
		return nil
	}
	gone, err := g.instances.isGone(ctx, id)
	if !gone || err != nil {
		return err
	}
	if err := g.delete(ctx, node); err != nil {
		return fmt.Errorf("delete Node %s, whose instance is gone: %w", node.Name, err)
	}
	return nil
}
