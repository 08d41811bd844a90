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

	"github.com/nodeless/nodeless/cloud"
)

// How often lost things are looked for, and how young is too young (karpenter.md §3.1).
const (
	collectOften  = 10 * time.Second
	collectSeldom = 2 * time.Minute
	oftenRuns     = 20
	youngest      = 30 * time.Second
)

func (l *Lifecycle) collectForever(ctx context.Context) {
	runs := 0
	l.every(ctx, func() time.Duration {
		if runs > 0 {
			if err := l.collect(ctx); err != nil && ctx.Err() == nil {
				l.o.Log.Warn("collecting lost machines failed; it is tried again", "error", err)
			}
		}
		runs++
		if runs > oftenRuns {
			return collectSeldom
		}
		return collectOften
	})
}

// collect ends machines without claim, claims without machine and Nodes without either.
func (l *Lifecycle) collect(ctx context.Context) error {
	machines, err := l.lists.machines(ctx)
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	there := map[string]bool{}
	var failed []error
	for _, m := range machines {
		there[m.ID] = true
		failed = append(failed, l.collectMachine(ctx, m))
	}
	for _, claim := range l.o.World.Claims() {
		failed = append(failed, l.collectClaim(ctx, claim, there))
	}
	var nodes corev1.NodeList
	if err := l.o.Cache.List(ctx, &nodes, client.HasLabels{karpv1.NodePoolLabelKey}); err != nil {
		return errors.Join(append(failed, fmt.Errorf("list Nodes: %w", err))...)
	}
	for i := range nodes.Items {
		failed = append(failed, l.collectNode(ctx, &nodes.Items[i], there))
	}
	return errors.Join(append(failed, l.sweep(ctx))...)
}

// collectMachine ends a machine whose claim is gone, or has another machine.
func (l *Lifecycle) collectMachine(ctx context.Context, m cloud.Instance) error {
	if l.now().Sub(m.Launched) < youngest || m.State == cloud.Terminating || m.State == cloud.Terminated || m.Claim == "" || l.isInFlight(m.Claim) {
		return nil
	}
	if claim := l.o.World.Claim(m.Claim); claim != nil && !foreign(claim, m) {
		return nil
	}
	claim := &karpv1.NodeClaim{} // the cache may be late: ask the API server before something is ended for good
	switch err := l.o.Client.Get(ctx, client.ObjectKey{Name: m.Claim}, claim); {
	case err == nil && !foreign(claim, m):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("look for NodeClaim %s of machine %s: %w", m.Claim, m.ID, err)
	}
	l.o.Log.Info("machine without NodeClaim is terminated", "machine", m.ID, "nodeclaim", m.Claim)
	if err := l.o.Cloud.Terminate(ctx, m.ID); err != nil && !errors.Is(err, cloud.ErrNotFound) {
		return fmt.Errorf("terminate %s, which has no NodeClaim: %w", m.ID, err)
	}
	return nil
}

// foreign reports whether a claim is known to have another machine.
func foreign(claim *karpv1.NodeClaim, m cloud.Instance) bool {
	return claim.Status.ProviderID != "" && machineID(claim.Status.ProviderID) != m.ID
}

// collectClaim ends a claim whose machine is gone. A claim that was never launched is left to its launch.
func (l *Lifecycle) collectClaim(ctx context.Context, claim *karpv1.NodeClaim, there map[string]bool) error {
	id := machineID(claim.Status.ProviderID)
	if id == "" || there[id] || claim.DeletionTimestamp != nil || l.now().Sub(launchedAt(claim)) < youngest {
		return nil
	}
	for _, node := range l.o.World.NodesByProviderID(claim.Status.ProviderID) {
		if isReady(node) {
			return nil
		}
	}
	gone, err := l.machineGone(ctx, id)
	if !gone || err != nil {
		return err
	}
	l.ended(ctx, claim)
	return l.deleteClaim(ctx, claim, "garbage_collected")
}

func launchedAt(claim *karpv1.NodeClaim) time.Time {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeLaunched {
			return c.LastTransitionTime.Time
		}
	}
	return claim.CreationTimestamp.Time
}

func (l *Lifecycle) machineGone(ctx context.Context, id string) (bool, error) {
	_, err := l.o.Cloud.Get(ctx, id)
	if errors.Is(err, cloud.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for machine %s: %w", id, err)
	}
	return false, nil
}

// collectNode ends a Node of ours that neither a claim nor a machine is behind.
func (l *Lifecycle) collectNode(ctx context.Context, node *corev1.Node, there map[string]bool) error {
	id := machineID(node.Spec.ProviderID)
	if id == "" || there[id] || isReady(node) || node.DeletionTimestamp != nil || l.now().Sub(node.CreationTimestamp.Time) < youngest ||
		l.o.World.ClaimByProviderID(node.Spec.ProviderID) != nil {
		return nil
	}
	gone, err := l.machineGone(ctx, id)
	if !gone || err != nil {
		return err
	}
	uid := node.UID
	if err := l.o.Client.Delete(ctx, node.DeepCopy(), client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Node %s, whose machine is gone: %w", node.Name, err)
	}
	return nil
}
