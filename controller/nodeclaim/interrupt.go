package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

const (
	// maxHandled is how many notices are handled concurrently.
	maxHandled = 32
	// maxLogged is how many unreadable notices of one answer are logged.
	maxLogged = 5
	// healthInterval is how often the cloud is asked which instances fail its checks
	// (github.com/aws/karpenter-provider-aws/pkg/controllers/interruption).
	healthInterval = time.Minute
	// deniedInterval replaces healthInterval while the cloud denies access to its checks.
	deniedInterval = 10 * time.Minute
)

// response is the reaction to a notice.
type response int

const (
	onlyNote              response = iota // only record events
	drainAfterReplacement                 // delete the claim once instances for its pods are launched
	drainNow                              // delete the claim at once: its pods are ending anyway
	forceTerminate                        // the same, without waiting for unresponsive pods
)

// notice says which event records an interruption, and how to respond
// (github.com/aws/karpenter-provider-aws/pkg/controllers/interruption).
type notice struct {
	reason, kind, message string
	response
}

const unhealthy = "An unhealthy warning was triggered for the instance"

var notices = map[cloud.InterruptionKind]notice{
	cloud.SpotInterruption: {
		"SpotInterrupted", corev1.EventTypeWarning, "Spot interruption warning was triggered",
		drainAfterReplacement,
	},
	cloud.ReservationInterruption: {
		"CapacityReservationInstanceInterrupted", corev1.EventTypeWarning,
		"Capacity Reservation interruption warning was triggered", drainAfterReplacement,
	},
	cloud.RebalanceRecommendation: {
		"SpotRebalanceRecommendation", corev1.EventTypeNormal,
		"Spot rebalance recommendation was triggered", onlyNote,
	},
	cloud.ScheduledChange:     {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, drainAfterReplacement},
	cloud.MaintenanceDue:      {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, drainAfterReplacement},
	cloud.InstanceFailed:      {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, forceTerminate},
	cloud.SystemFailed:        {"InstanceUnhealthy", corev1.EventTypeWarning, unhealthy, forceTerminate},
	cloud.InstanceStopping:    {"InstanceStopping", corev1.EventTypeWarning, "Instance is stopping", drainNow},
	cloud.InstanceTerminating: {"InstanceTerminating", corev1.EventTypeWarning, "Instance is terminating", drainNow},
}

// checks are Karpenter's names for the cloud's health checks, by what fails.
var checks = map[cloud.InterruptionKind]string{
	cloud.InstanceFailed: "InstanceStatus", cloud.SystemFailed: "SystemStatus", cloud.MaintenanceDue: "EventStatus",
}

// interrupter acts on the cloud's notices about instances and on its health checks.
type interrupter struct {
	*objects
	source       cloud.Interrupter   // nil if the cloud gives no notices
	health       cloud.HealthChecker // nil if the cloud checks nothing
	outcomes     *launchOutcomes
	replacements *replacements
	outage       outage // of source
}

func newInterrupter(shared *objects, c cloud.Provider, outcomes *launchOutcomes, r *replacements) *interrupter {
	i := &interrupter{objects: shared, outcomes: outcomes, replacements: r}
	r.end = i.end
	i.source, _ = c.(cloud.Interrupter)
	i.health, _ = c.(cloud.HealthChecker)
	return i
}

// run works until ctx is done.
func (i *interrupter) run(ctx context.Context) {
	var wg sync.WaitGroup
	if i.source != nil {
		wg.Go(func() { i.every(ctx, func() time.Duration { return i.poll(ctx) }) })
	}
	if i.health != nil {
		wg.Go(func() { i.checkHealth(ctx) })
	}
	wg.Wait()
}

// poll handles the pending notices, and returns the delay until the next call.
func (i *interrupter) poll(ctx context.Context) time.Duration {
	got, err := i.source.Interruptions(ctx)
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		return i.failed(err)
	}
	i.answered()
	if len(got) == 0 { // a source blocks while there is nothing; do not poll one that does not block without pause
		return time.Second
	}
	i.handleAll(ctx, got)
	return 0
}

// handleAll handles notices concurrently, and removes from the queue those that were handled. The others come again.
func (i *interrupter) handleAll(ctx context.Context, got []cloud.Interruption) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(maxHandled)
	done, unreadable := make([]cloud.Interruption, 0, len(got)), 0
	for _, n := range got {
		i.metrics.NoticeReceived(n.Kind)
		if n.Kind == cloud.Malformed {
			if unreadable++; unreadable <= maxLogged {
				i.log.Warn("a message on the interruption queue cannot be read and is removed", "error", n.Note)
			}
		}
		group.Go(func() error {
			if err := i.handle(ctx, n); err != nil {
				i.log.Warn("cannot handle an interruption notice; it comes again", "instances", n.InstanceIDs, "kind", n.Kind,
					"error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, n)
			return nil
		})
	}
	_ = group.Wait() // what failed is not in done
	if unreadable > maxLogged {
		i.log.Warn("further messages on the interruption queue cannot be read and are removed", "messages",
			unreadable-maxLogged)
	}
	if err := i.source.Done(ctx, done...); err != nil {
		i.log.Warn("cannot remove interruption notices; they come again", "notices", len(done), "error", err)
		return
	}
	for _, n := range done {
		sent := n.Sent
		if sent.IsZero() {
			sent = n.At
		}
		i.metrics.NoticeHandled(i.now().Sub(sent))
	}
}

// checkHealth ends instances that fail the cloud's checks, until ctx is done. It asks rarely while the cloud denies
// access to the results: the permission may be missing for good, or the credentials may have expired for a moment.
func (i *interrupter) checkHealth(ctx context.Context) {
	counted, denied := map[string]bool{}, false
	i.every(ctx, func() time.Duration {
		got, err := i.health.Unhealthy(ctx)
		before, pause := denied, healthInterval
		if denied = errors.Is(err, cloud.ErrUnauthorized); denied {
			pause = deniedInterval
		}
		if err != nil && ctx.Err() == nil && !(before && denied) {
			i.log.Warn("cannot ask which instances fail the cloud's checks", "error", err, "retry", pause)
		}
		now := i.handleUnhealthy(ctx, got, counted)
		if err != nil { // earlier results may still hold, and count once
			maps.Copy(now, counted)
		}
		counted = now
		return pause
	})
}

// handleUnhealthy acts on the failed checks, counts the new ones, and returns all.
func (i *interrupter) handleUnhealthy(ctx context.Context, got []cloud.Interruption,
	counted map[string]bool,
) map[string]bool {
	now := map[string]bool{}
	for _, n := range got {
		for _, id := range n.InstanceIDs {
			if i.cluster.ClaimByInstanceID(id) == nil {
				continue
			}
			key := id + " " + string(n.Kind)
			if now[key] = true; !counted[key] {
				i.metrics.InstanceUnhealthy(checks[n.Kind])
				i.log.Info("instance fails the cloud's checks", "instance", id, "check", checks[n.Kind], "since", n.At)
			}
		}
		if err := i.handle(ctx, n); err != nil {
			i.log.Warn("cannot give up an unhealthy instance; trying again", "instances", n.InstanceIDs, "error", err)
		}
	}
	return now
}

// handle acts on one notice. It ignores instances that are not ours.
func (i *interrupter) handle(ctx context.Context, got cloud.Interruption) error {
	n, known := notices[got.Kind]
	if !known {
		return nil
	}
	var failed []error
	for _, id := range got.InstanceIDs {
		if claim := i.cluster.ClaimByInstanceID(id); claim != nil {
			if err := i.respond(ctx, claim, got.Kind, n); err != nil {
				failed = append(failed, fmt.Errorf("interruption of %s: %w", id, err))
			}
		}
	}
	return errors.Join(failed...)
}

// respond carries out the response to a notice for one claim, once.
func (i *interrupter) respond(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind,
	n notice,
) error {
	deleting := claim.DeletionTimestamp != nil
	switch {
	case deleting && n.response == drainNow: // it terminates because we requested it
		return nil
	case n.response == drainAfterReplacement && isInterrupted(claim):
		return nil
	case n.response == forceTerminate:
		return i.force(ctx, claim, kind, n)
	}
	i.event(claim, i.cluster.Node(claim.Status.NodeName), n.kind, n.reason, n.message)
	if kind == cloud.SpotInterruption {
		i.cluster.MarkExhausted(cloud.ClassRef{}, []model.OfferingKey{{
			Type: claim.Labels[model.LabelInstanceType], Zone: claim.Labels[model.LabelZone], CapacityType: model.Spot,
		}})
	}
	switch {
	case n.response == drainAfterReplacement: // a drain that has begun already hurries
		return i.replacements.note(ctx, claim, kind)
	case deleting || n.response == onlyNote:
		return nil
	}
	return i.end(ctx, claim, kind)
}

// force deletes a claim whose instance is broken. The termination grace period of its pods ends immediately.
func (i *interrupter) force(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind, n notice) error {
	const key = karpv1.NodeClaimTerminationTimestampAnnotationKey
	if claim.Annotations[key] == "" {
		i.event(claim, i.cluster.Node(claim.Status.NodeName), n.kind, n.reason, n.message)
		if err := i.annotate(ctx, claim, key, i.now().UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	if claim.DeletionTimestamp != nil {
		return nil
	}
	return i.end(ctx, claim, kind)
}

// end deletes a claim whose instance the cloud is taking away.
func (i *interrupter) end(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind) error {
	if kind == cloud.InstanceTerminating || kind == cloud.InstanceStopping {
		i.outcomes.ended(ctx, claim)
	}
	if err := i.deleteClaim(ctx, claim, string(kind)); err != nil {
		return err
	}
	const reason, message = "TerminatingOnInterruption", "Interruption triggered termination for the "
	i.recorder.Event(claim, corev1.EventTypeWarning, reason, message+"NodeClaim")
	if node := i.cluster.Node(claim.Status.NodeName); node != nil {
		i.recorder.Event(node, corev1.EventTypeWarning, reason, message+"Node")
	}
	return nil
}
