package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// A class that was made in one go with its claim is not known or not resolved for a moment: a claim is not given up for it
// when it is younger than classGrace.
const (
	classGrace = 5 * time.Second
	classAgain = 250 * time.Millisecond
)

// launch gives a claim its machine. It runs on workers of its own, so that a slow cloud stalls nothing else.
func (l *Lifecycle) launch(ctx context.Context, name string) (_ time.Duration, err error) {
	l.setInFlight(name, true)
	defer func() {
		l.setInFlight(name, false)
		l.claims.Add(name)
	}()
	claim, err := l.readClaim(ctx, name)
	if claim == nil || err != nil || claim.DeletionTimestamp != nil || conditions.IsTrue(claim, karpv1.ConditionTypeLaunched) {
		return 0, err
	}
	l.noteTried(claim.UID)
	if err := l.prepare(ctx, claim); err != nil {
		return 0, err
	}
	before := l.mayHaveMachine(claim.UID)
	got, err := l.ask(ctx, claim)
	l.exhausted(claim, got.Exhausted, err)
	switch {
	case errors.Is(err, cloud.ErrNoCapacity):
		if !before { // else an earlier call may have had a machine, whatever this one says: the deletion looks for it
			l.noMachine(claim)
		}
		l.o.Recorder.Event(claim, corev1.EventTypeWarning, "InsufficientCapacityError",
			fmt.Sprintf("NodeClaim %s event: %v%s", name, err, l.triedAgain(got.Exhausted)))
		return 0, l.deleteClaim(ctx, claim, "insufficient_capacity")
	case errors.Is(err, cloud.ErrClassNotReady) && l.now().Sub(claim.CreationTimestamp.Time) < classGrace:
		return classAgain, nil
	case errors.Is(err, cloud.ErrClassUnresolved):
		return 0, errors.Join(fmt.Errorf("launch: %w", err), l.launchUnknown(ctx, claim, "NodeClassNotReady", err))
	case errors.Is(err, cloud.ErrClassNotReady):
		l.o.Recorder.Event(claim, corev1.EventTypeWarning, "NodeClassNotReady", fmt.Sprintf("NodeClaim %s event: %v", name, err))
		return 0, l.deleteClaim(ctx, claim, "nodeclass_not_ready")
	case claim.Labels[karpv1.NodePoolLabelKey] != "" && l.hopeless(claim, err):
		if !before {
			l.noMachine(claim)
		}
		return 0, l.refused(ctx, claim, err)
	case err != nil:
		return 0, errors.Join(fmt.Errorf("launch: %w", err), l.launchUnknown(ctx, claim, "LaunchFailed", err))
	}
	return 0, l.writeLaunched(ctx, claim, got.Instance)
}

// prepare is for claims that somebody else made: without the finalizer a deletion would leave the machine behind, and by
// the label its class is found.
func (l *Lifecycle) prepare(ctx context.Context, claim *karpv1.NodeClaim) error {
	before := claim.DeepCopy()
	if !slices.Contains(claim.Finalizers, karpv1.TerminationFinalizer) {
		claim.Finalizers = append(claim.Finalizers, karpv1.TerminationFinalizer)
	}
	if class := translate.ClassRef(claim.Spec.NodeClassRef); class.Name != "" {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, translate.ClassLabel(class), class.Name)
	}
	return l.writeMeta(ctx, before, claim)
}

// ask makes the call, unless its answer is known and only waits to be written.
func (l *Lifecycle) ask(ctx context.Context, claim *karpv1.NodeClaim) (cloud.LaunchResult, error) {
	l.mu.Lock()
	got, known := l.launched[claim.UID]
	sentBefore := l.sent[claim.UID]
	l.mu.Unlock()
	if known {
		got.Exhausted = nil
		return got, nil
	}
	req, err := l.o.World.Names().LaunchRequest(claim)
	if err != nil {
		return cloud.LaunchResult{}, err
	}
	if req.Pool == "" && l.o.RefreshClass != nil {
		// Somebody made it by hand, and may have changed the class a moment before.
		l.o.RefreshClass(ctx, req.Class)
	}
	req.Unavailable = l.o.World.Unavailable()
	l.askOverlaid(&req)
	l.setSent(claim.UID, true)
	start := l.now()
	got, err = l.o.Cloud.Launch(ctx, req)
	l.metrics.Launched(l.now().Sub(start))
	switch {
	case err == nil:
		l.addOverlaid(req.Pool, &got.Instance)
		l.mu.Lock()
		l.launched[claim.UID] = got
		l.mu.Unlock()
		l.o.World.MarkAvailable(model.OfferingKey{Type: got.Instance.Type, Zone: got.Instance.Zone, CapacityType: got.Instance.CapacityType})
	case errors.Is(err, cloud.ErrClassNotReady), errors.Is(err, cloud.ErrUnauthorized), errors.Is(err, cloud.ErrRefused):
		l.setSent(claim.UID, sentBefore) // this call started nothing
	}
	return got, err
}

// noteTried remembers that the launch queue has a claim's launch in hand.
func (l *Lifecycle) noteTried(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried[uid] = true
}

// mayHaveMachine reports whether a launch may have started a machine that nobody wrote down.
func (l *Lifecycle) mayHaveMachine(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent[uid]
}

// setSent remembers whether a launch may have started a machine that nobody wrote down.
func (l *Lifecycle) setSent(uid types.UID, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if yes {
		l.sent[uid] = true
	} else {
		delete(l.sent, uid)
	}
}

// exhausted takes what the cloud ran out of from the next snapshots, and tells people if another offering was had: their
// pods notice nothing.
func (l *Lifecycle) exhausted(claim *karpv1.NodeClaim, keys []model.OfferingKey, err error) {
	if len(keys) == 0 {
		return
	}
	l.o.World.MarkExhausted(keys)
	for _, k := range keys {
		l.metrics.Exhausted(k.CapacityType)
	}
	if err == nil {
		l.o.Recorder.Event(claim, corev1.EventTypeNormal, "InsufficientCapacityError",
			fmt.Sprintf("NodeClaim %s event: no capacity for %s; the next best was launched%s", claim.Name, offerings(keys), l.triedAgain(keys)))
	}
}

// triedAgain says when what the cloud ran out of is asked for again.
func (l *Lifecycle) triedAgain(keys []model.OfferingKey) string {
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("; tried again in %s, later each time that there is none", l.o.World.BackIn(keys).Round(time.Second))
}

// offerings names the first few of keys.
func offerings(keys []model.OfferingKey) string {
	const most = 10
	var named []string
	for _, k := range keys[:min(len(keys), most)] {
		named = append(named, fmt.Sprintf("%s %s in %s", k.CapacityType, k.Type, k.Zone))
	}
	if more := len(keys) - most; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return strings.Join(named, ", ")
}

// noMachine remembers that the cloud gave nothing for a claim: its deletion need not look for a machine.
func (l *Lifecycle) noMachine(claim *karpv1.NodeClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[claim.UID] = true
}

func (l *Lifecycle) launchUnknown(ctx context.Context, claim *karpv1.NodeClaim, reason string, cause error) error {
	before := claim.DeepCopy()
	claim.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, reason, truncate(cause.Error()))
	return l.writeStatus(ctx, before, claim)
}

// truncate keeps a message within what the API accepts for a condition.
func truncate(message string) string {
	const most = 2048
	if len(message) <= most {
		return message
	}
	return message[:most-3] + "..."
}

// writeLaunched notes on the claim what was launched: labels first, so that a claim that is Launched has them.
func (l *Lifecycle) writeLaunched(ctx context.Context, claim *karpv1.NodeClaim, m cloud.Instance) error {
	before := claim.DeepCopy()
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, m.Labels)
	if l.o.Annotations != nil {
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		maps.Copy(claim.Annotations, l.o.Annotations(claim))
	}
	names := l.o.World.Names()
	claim.Status.ProviderID, claim.Status.ImageID = m.ProviderID, m.ImageID
	claim.Status.Capacity, claim.Status.Allocatable = names.ResourceList(m.Capacity), names.ResourceList(m.Allocatable)
	err := l.writeMeta(ctx, before, claim)
	if err == nil {
		conditions := claim.StatusConditions()
		conditions.SetTrue(karpv1.ConditionTypeLaunched)
		conditions.SetUnknownWithReason(karpv1.ConditionTypeRegistered, "NodeNotFound", "Node not registered with cluster")
		err = l.writeStatus(ctx, before, claim)
	}
	switch {
	case apierrors.IsNotFound(err):
		// Somebody took the finalizer and the claim away meanwhile: nobody else knows of the machine yet.
		if _, err := l.terminate(ctx, m.ID); err != nil {
			return err
		}
		l.forget(claim.UID, m.ID)
		return nil
	case err != nil:
		return err
	}
	l.mu.Lock()
	delete(l.launched, claim.UID)
	delete(l.tried, claim.UID)
	delete(l.sent, claim.UID)
	l.mu.Unlock()
	l.o.Log.Info("machine is launched", "nodeclaim", claim.Name, "machine", m.ID, "type", m.Type, "zone", m.Zone, "capacityType", m.CapacityType)
	return nil
}
