package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

const (
	launchFailed = "LaunchFailed"
	// permissionGrace is how long a launch for which permissions are missing is tried again: new ones take a moment
	// to count.
	permissionGrace = 10 * time.Second
)

// hopeless reports whether the launch would fail again and again.
func (l *Lifecycle) hopeless(claim *karpv1.NodeClaim, err error) bool {
	return errors.Is(err, cloud.ErrRefused) ||
		errors.Is(err, cloud.ErrUnauthorized) && l.now().Sub(claim.CreationTimestamp.Time) >= permissionGrace
}

// refused gives a claim up whose launch the cloud refuses, so that its pods get another pool's node; its own pool
// backs off.
func (l *Lifecycle) refused(ctx context.Context, claim *karpv1.NodeClaim, cause error) error {
	if err := l.launchUnknown(ctx, claim, launchFailed, cause); err != nil {
		return err
	}
	l.backOff(claim, cluster.LaunchFailure{Reason: launchFailed, Message: truncate(cause.Error())})
	return l.giveUp(ctx, claim, "launch_failed")
}

// backOff keeps the claim's pool out of launches for a while.
func (l *Lifecycle) backOff(claim *karpv1.NodeClaim, f cluster.LaunchFailure) {
	f.Class = translate.ClassRef(claim.Spec.NodeClassRef)
	until := l.o.World.LaunchFailed(claim.Labels[karpv1.NodePoolLabelKey], f)
	message := fmt.Sprintf("NodeClaim %s event: %s; NodePool %s launches again at %s",
		claim.Name, f.Message, claim.Labels[karpv1.NodePoolLabelKey], until.UTC().Format(time.RFC3339))
	l.o.Recorder.Event(claim, corev1.EventTypeWarning, f.Reason, message)
}

// ended looks why the machine of a claim ended before it was a Node. If another one would end alike, its pool backs
// off.
func (l *Lifecycle) ended(ctx context.Context, claim *karpv1.NodeClaim) {
	source, ok := l.o.Cloud.(cloud.Ender)
	if !ok || claim.Labels[karpv1.NodePoolLabelKey] == "" || conditions.IsTrue(claim, karpv1.ConditionTypeRegistered) {
		return
	}
	why, err := source.Ended(ctx, machineID(claim.Status.ProviderID))
	if err != nil {
		l.o.Log.Warn("why a machine ended is not known", "nodeclaim", claim.Name, "error", err)
		return
	}
	if why.AtLaunch {
		message := why.Code + ": " + why.Message
		l.backOff(claim, cluster.LaunchFailure{Reason: "InstanceTerminatedAtLaunch", Message: message})
		l.registered(claim, false)
	}
}
