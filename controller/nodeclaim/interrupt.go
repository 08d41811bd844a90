package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

const (
	// pollFailed is how long after a failure the cloud's notices are asked for again.
	pollFailed = 5 * time.Second
	// notesAtOnce is how many notices are acted on at the same time.
	notesAtOnce = 32
	// mostLogged is how many unreadable notices of one answer are written to the log.
	mostLogged = 5
)

// response is what a notice leads to.
type response int

const (
	inform response = iota // people are told, nothing else
	depart                 // the machine goes once its pods' next machines are on their way
	leave                  // the machine goes at once: its pods are ending anyway
	force                  // the same, and pods that do not answer are not waited for
)

// notice is what people are told of an interruption (karpenter.md §7.1) and what is done (§6.7).
type notice struct {
	reason, kind, message string
	do                    response
}

const unhealthy = "An unhealthy warning was triggered for the instance"

var notices = map[cloud.InterruptionKind]notice{
	cloud.SpotInterruption: {"SpotInterrupted", corev1.EventTypeWarning, "Spot interruption warning was triggered", depart},
	cloud.ReservationInterruption: {"CapacityReservationInstanceInterrupted", corev1.EventTypeWarning,
		"Capacity Reservation interruption warning was triggered", depart},
	cloud.RebalanceRecommendation: {"SpotRebalanceRecommendation", corev1.EventTypeNormal, "Spot rebalance recommendation was triggered", inform},
	cloud.ScheduledChange:         {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, depart},
	cloud.MaintenanceDue:          {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, depart},
	cloud.InstanceFailed:          {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, force},
	cloud.SystemFailed:            {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, force},
	cloud.InstanceStopping:        {"InstanceStopping", corev1.EventTypeWarning, "Instance is stopping", leave},
	cloud.InstanceTerminating:     {"InstanceTerminating", corev1.EventTypeWarning, "Instance is terminating", leave},
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
		// A source blocks while there is nothing; one that does not is not asked without pause.
		if len(got) == 0 {
			return time.Second
		}
		l.takeNotices(ctx, source, got)
		return 0
	})
}

// takeNotices acts on notices, many at the same time, and takes those off that were acted on; the others come again.
func (l *Lifecycle) takeNotices(ctx context.Context, source cloud.Interrupter, got []cloud.Interruption) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	done, unreadable := make([]cloud.Interruption, 0, len(got)), 0
	slots := make(chan struct{}, notesAtOnce)
	for _, n := range got {
		l.metrics.NoticeReceived(n.Kind)
		if n.Kind == cloud.Malformed {
			if unreadable++; unreadable <= mostLogged {
				l.o.Log.Warn("a message on the interruption queue cannot be read and is removed", "error", n.Note)
			}
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := l.interrupted(ctx, n); err != nil {
				l.o.Log.Warn("an interruption notice was not acted on; it comes again", "machines", n.InstanceIDs, "kind", n.Kind, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, n)
		})
	}
	wg.Wait()
	if unreadable > mostLogged {
		l.o.Log.Warn("further messages on the interruption queue cannot be read and are removed", "messages", unreadable-mostLogged)
	}
	if err := source.Done(ctx, done...); err != nil {
		l.o.Log.Warn("interruption notices were not removed; they come again", "notices", len(done), "error", err)
		return
	}
	for _, n := range done {
		sent := n.Sent
		if sent.IsZero() {
			sent = n.At
		}
		l.metrics.NoticeHandled(l.now().Sub(sent))
	}
}

// interrupted acts on one notice. Machines that are not ours are nobody's concern here.
func (l *Lifecycle) interrupted(ctx context.Context, i cloud.Interruption) error {
	n, known := notices[i.Kind]
	if !known {
		return nil
	}
	var failed []error
	for _, id := range i.InstanceIDs {
		if claim := l.o.World.ClaimByMachineID(id); claim != nil {
			if err := l.respond(ctx, claim, i.Kind, n); err != nil {
				failed = append(failed, fmt.Errorf("interruption of %s: %w", id, err))
			}
		}
	}
	return errors.Join(failed...)
}

// respond does for one machine what a notice asks for. A notice that was acted on before is no news.
func (l *Lifecycle) respond(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind, n notice) error {
	ending := claim.DeletionTimestamp != nil
	switch {
	case ending && n.do == leave: // it ends because it was asked to
		return nil
	case n.do == depart && isInterrupted(claim):
		return nil
	case n.do == force:
		return l.force(ctx, claim, kind, n)
	}
	l.tell(claim, l.o.World.Node(claim.Status.NodeName), n.kind, n.reason, n.message)
	if kind == cloud.SpotInterruption {
		l.o.World.MarkExhausted([]model.OfferingKey{{
			Type: claim.Labels[model.LabelInstanceType], Zone: claim.Labels[model.LabelZone], CapacityType: model.Spot,
		}})
	}
	switch {
	case ending || n.do == inform:
		return nil
	case n.do == depart:
		return l.noteInterrupted(ctx, claim, kind)
	}
	return l.endInterrupted(ctx, claim, kind)
}

// endInterrupted has a claim deleted since the cloud takes its machine.
func (l *Lifecycle) endInterrupted(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind) error {
	if kind == cloud.InstanceTerminating || kind == cloud.InstanceStopping {
		l.ended(ctx, claim)
	}
	if err := l.deleteClaim(ctx, claim, string(kind)); err != nil {
		return err
	}
	l.o.Recorder.Event(claim, corev1.EventTypeWarning, "TerminatingOnInterruption", "Interruption triggered termination for the NodeClaim")
	if node := l.o.World.Node(claim.Status.NodeName); node != nil {
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
