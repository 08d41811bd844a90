package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// examineEvery is how often the cloud is asked which machines fail its checks (karpenter.md §6.5).
const examineEvery = time.Minute

// categories are Karpenter's names of the checks, by what fails.
var categories = map[cloud.InterruptionKind]string{
	cloud.InstanceFailed: "InstanceStatus", cloud.SystemFailed: "SystemStatus", cloud.MaintenanceDue: "EventStatus",
}

// examine gives machines up that the cloud's checks find broken, until ctx is done or the cloud does not let us ask.
func (l *Lifecycle) examine(ctx context.Context, source cloud.HealthChecker) {
	counted := map[string]bool{}
	refused := false
	l.every(ctx, func() time.Duration {
		if refused {
			<-ctx.Done()
			return 0
		}
		got, err := source.Unhealthy(ctx)
		if err != nil && ctx.Err() == nil {
			refused = errors.Is(err, cloud.ErrUnauthorized)
			l.o.Log.Warn("asking which machines fail the cloud's checks failed", "error", err, "again", !refused)
		}
		now := l.takeAiling(ctx, got, counted)
		if err != nil { // what was found before may still be so, and counts once
			maps.Copy(now, counted)
		}
		counted = now
		return examineEvery
	})
}

// takeAiling acts on what was found and counts what was not found before; it gives what is known now.
func (l *Lifecycle) takeAiling(ctx context.Context, got []cloud.Interruption, counted map[string]bool) map[string]bool {
	now := map[string]bool{}
	for _, n := range got {
		for _, id := range n.InstanceIDs {
			if l.o.World.ClaimByMachineID(id) == nil {
				continue
			}
			key := id + " " + string(n.Kind)
			if now[key] = true; !counted[key] {
				l.metrics.MachineUnhealthy(categories[n.Kind])
				l.o.Log.Info("machine fails the cloud's checks", "machine", id, "check", categories[n.Kind], "since", n.At)
			}
		}
		if err := l.interrupted(ctx, n); err != nil {
			l.o.Log.Warn("a machine that fails the cloud's checks was not given up; it is tried again", "machines", n.InstanceIDs, "error", err)
		}
	}
	return now
}

// force ends a claim whose machine is broken: the time for its pods to leave is over from the start.
func (l *Lifecycle) force(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind, n notice) error {
	if claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] == "" {
		l.tell(claim, l.o.World.Node(claim.Status.NodeName), n.kind, n.reason, n.message)
		if err := l.annotate(ctx, claim, karpv1.NodeClaimTerminationTimestampAnnotationKey, l.now().UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	if claim.DeletionTimestamp != nil {
		return nil
	}
	return l.endInterrupted(ctx, claim, kind)
}

// annotate sets one annotation of a claim, whatever else has changed on it; that it is gone is fine.
func (l *Lifecycle) annotate(ctx context.Context, claim *karpv1.NodeClaim, key, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, claim.UID, key, value)
	noted := claim.DeepCopy()
	if err := l.o.Client.Patch(ctx, noted, client.RawPatch(types.MergePatchType, patch)); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("annotate NodeClaim %s with %s: %w", claim.Name, key, err)
	}
	l.observe(noted)
	return nil
}
