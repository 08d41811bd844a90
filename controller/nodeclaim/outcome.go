package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

const (
	launchFailed = "LaunchFailed"
	// permissionGrace is how long a launch without permission is retried: new permissions take a moment to become
	// effective.
	permissionGrace = 10 * time.Second
)

// launchOutcomes acts on the outcomes of launches: it reports them to the pool, and makes the pool back off if
// another launch would end the same way.
type launchOutcomes struct {
	*objects
	cloud  cloud.Provider
	report func(claim *karpv1.NodeClaim, registered bool) // may be nil
}

// registered reports whether a claim's instance became a Node.
func (o *launchOutcomes) registered(claim *karpv1.NodeClaim, yes bool) {
	if yes {
		o.cluster.LaunchesAgain(claim.Labels[karpv1.NodePoolLabelKey])
	}
	if o.report != nil {
		o.report(claim, yes)
	}
}

// giveUp deletes a claim whose instance did not become a Node in time, or could not be launched.
func (o *launchOutcomes) giveUp(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	if err := o.deleteClaim(ctx, claim, why); err != nil {
		return err
	}
	o.registered(claim, false)
	return nil
}

// permanent reports whether the launch would keep failing.
func (o *launchOutcomes) permanent(claim *karpv1.NodeClaim, err error) bool {
	return errors.Is(err, cloud.ErrRefused) ||
		errors.Is(err, cloud.ErrUnauthorized) && o.until(claim.CreationTimestamp.Time, permissionGrace) <= 0
}

// refused deletes a claim whose launch the cloud refuses, so that its pods get a node of another pool. Its own pool
// backs off.
func (o *launchOutcomes) refused(ctx context.Context, claim *karpv1.NodeClaim, cause error) error {
	if err := o.writeUnknown(ctx, claim, launchFailed, cause); err != nil {
		return err
	}
	o.backOff(claim, cluster.LaunchFailure{Reason: launchFailed, Message: truncate(cause.Error())})
	return o.giveUp(ctx, claim, "launch_failed")
}

// unknown writes why a launch has not succeeded yet, and returns the cause, so that the launch is retried.
func (o *launchOutcomes) unknown(ctx context.Context, claim *karpv1.NodeClaim, reason string, cause error) error {
	return errors.Join(fmt.Errorf("launch: %w", cause), o.writeUnknown(ctx, claim, reason, cause))
}

func (o *launchOutcomes) writeUnknown(ctx context.Context, claim *karpv1.NodeClaim, reason string, cause error) error {
	before := claim.DeepCopy()
	claim.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, reason, truncate(cause.Error()))
	return o.writeStatus(ctx, before, claim)
}

// truncate keeps a condition's message readable.
func truncate(message string) string {
	const maxMessage = 2048
	if len(message) <= maxMessage {
		return message
	}
	return message[:maxMessage-3] + "..."
}

// backOff excludes the claim's pool from launches for a while.
func (o *launchOutcomes) backOff(claim *karpv1.NodeClaim, f cluster.LaunchFailure) {
	f.Class = cluster.ClassRef(claim.Spec.NodeClassRef)
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	until := o.cluster.LaunchFailed(pool, f)
	o.log.Warn("a launch failed", "nodeclaim", claim.Name, "reason", f.Reason, "error", f.Message, "nodepool", pool,
		"next", until)
	o.recorder.Event(claim, corev1.EventTypeWarning, f.Reason, fmt.Sprintf(
		"NodeClaim %s event: %s; NodePool %s launches again at %s", claim.Name, f.Message, pool,
		until.UTC().Format(time.RFC3339)))
}

// ended finds out why the instance of a claim ended before it became a Node. If another one would end the same way,
// the pool backs off.
func (o *launchOutcomes) ended(ctx context.Context, claim *karpv1.NodeClaim) {
	source, ok := o.cloud.(cloud.Ender)
	if !ok || claim.Labels[karpv1.NodePoolLabelKey] == "" || conditions.IsTrue(claim, karpv1.ConditionTypeRegistered) {
		return
	}
	why, err := source.Ended(ctx, catalog.InstanceID(claim.Status.ProviderID))
	if err != nil {
		o.log.Warn("cannot find out why an instance ended", "nodeclaim", claim.Name, "error", err)
		return
	}
	if why.AtLaunch {
		o.backOff(claim, cluster.LaunchFailure{Reason: "InstanceTerminatedAtLaunch", Message: why.Code + ": " + why.Message})
		o.registered(claim, false)
	}
}
