package lifecycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/metrics"
)

// pollFailed is how long after a failure the cloud's notices are asked for again.
const pollFailed = 5 * time.Second

// notice is what people are told of an interruption (karpenter.md §7.1).
type notice struct {
	reason, kind, message string
	leave                 bool // the machine is given up
}

var notices = map[cloud.InterruptionKind]notice{
	cloud.SpotInterruption:        {"SpotInterrupted", corev1.EventTypeWarning, "Spot interruption warning was triggered", true},
	cloud.RebalanceRecommendation: {"SpotRebalanceRecommendation", corev1.EventTypeNormal, "Spot rebalance recommendation was triggered", false},
	cloud.ScheduledChange:         {"InstanceUnhealthy", corev1.EventTypeWarning, "An unhealthy warning was triggered for the instance", true},
	cloud.MachineStopping:         {"InstanceStopping", corev1.EventTypeWarning, "Instance is stopping", true},
	cloud.MachineTerminating:      {"InstanceTerminating", corev1.EventTypeWarning, "Instance is terminating", true},
}

// interruptions acts on the cloud's notices until ctx is done.
func (l *Lifecycle) interruptions(ctx context.Context, source cloud.Interrupter) {
	l.every(ctx, func() time.Duration {
		got, err := source.Interruptions(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.o.Log.Warn("reading interruption notices failed; it is tried again", "error", err)
			}
			return pollFailed
		}
		for _, n := range got {
			if err := l.interrupted(ctx, n); err != nil {
				l.o.Log.Warn("an interruption notice was not acted on; it comes again", "machine", n.MachineID, "error", err)
				continue
			}
			if err := source.Done(ctx, n); err != nil {
				l.o.Log.Warn("an interruption notice was not removed; it comes again", "machine", n.MachineID, "error", err)
				continue
			}
			l.metrics.NoticeHandled(l.now().Sub(n.At))
		}
		// A source blocks while there is nothing; one that does not is not asked without pause.
		if len(got) == 0 {
			return time.Second
		}
		return 0
	})
}

func (l *Lifecycle) interrupted(ctx context.Context, i cloud.Interruption) error {
	l.metrics.NoticeReceived(i.Kind)
	n, known := notices[i.Kind]
	claim := l.claimByMachine(i.MachineID)
	if !known || claim == nil {
		return nil
	}
	if claim.DeletionTimestamp != nil && (i.Kind == cloud.MachineStopping || i.Kind == cloud.MachineTerminating) {
		return nil // it ends because it was asked to: no news
	}
	node := l.o.World.Node(claim.Status.NodeName)
	l.tell(claim, node, n.kind, n.reason, n.message)
	if i.Kind == cloud.SpotInterruption {
		l.o.World.MarkExhausted([]model.OfferingKey{{
			Type: claim.Labels[model.LabelInstanceType], Zone: claim.Labels[model.LabelZone], CapacityType: model.Spot,
		}})
	}
	if !n.leave || claim.DeletionTimestamp != nil {
		return nil
	}
	if err := l.deleteClaim(ctx, claim, metrics.MessageType(i.Kind)); err != nil {
		return fmt.Errorf("interruption of %s: %w", i.MachineID, err)
	}
	l.o.Recorder.Event(claim, corev1.EventTypeWarning, "TerminatingOnInterruption", "Interruption triggered termination for the NodeClaim")
	if node != nil {
		l.o.Recorder.Event(node, corev1.EventTypeWarning, "TerminatingOnInterruption", "Interruption triggered termination for the Node")
	}
	return nil
}

func (l *Lifecycle) tell(claim *karpv1.NodeClaim, node *corev1.Node, kind, reason, message string) {
	l.o.Recorder.Event(claim, kind, reason, message)
	if node != nil {
		l.o.Recorder.Event(node, kind, reason, message)
	}
}

func (l *Lifecycle) claimByMachine(id string) *karpv1.NodeClaim {
	for _, c := range l.o.World.Claims() {
		if c.Status.ProviderID != "" && machineID(c.Status.ProviderID) == id {
			return c
		}
	}
	return nil
}
