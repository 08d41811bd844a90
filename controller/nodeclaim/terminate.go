package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/internal/kit/coalesce"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Pauses between two requests to terminate the same instance.
const (
	firstPoll = 250 * time.Millisecond
	maxPoll   = 5 * time.Second
)

// An instance that was just started may be missing from the cloud's lists for listsSettle; meanwhile the search
// repeats every lookAgain.
const (
	listsSettle = 10 * time.Second
	lookAgain   = time.Second
)

// graceExpiring is the reason of the event with the time by which the pods of a Node will be gone.
const graceExpiring = "TerminationGracePeriodExpiring"

// terminator terminates claims: it drains the Node, then terminates the instance, then removes the finalizer.
type terminator struct {
	*objects
	instances *instances
	launches  *launcher
	drainer   *drainer
	nodes     *workqueue.Queue
}

// finalize advances the termination of one claim.
func (t *terminator) finalize(ctx context.Context, claim *karpv1.NodeClaim) (time.Duration, error) {
	if !slices.Contains(claim.Finalizers, karpv1.TerminationFinalizer) {
		return 0, nil
	}
	if t.launches.isInFlight(claim.Name) {
		return 0, nil // the claim is reconciled again when the launch has ended
	}
	if err := t.setDeadline(ctx, claim); err != nil {
		return 0, err
	}
	draining, err := t.deleteNodes(ctx, claim)
	if draining || err != nil {
		return 0, err // the deletion of the Node triggers the next call
	}
	id, again, err := t.instanceOf(ctx, claim)
	if again > 0 || err != nil {
		return again, err
	}
	if id != "" {
		if again, err := t.instances.terminate(ctx, id); again > 0 || err != nil {
			return again, err
		}
		if again, err := t.terminateOthers(ctx, claim, id); again > 0 || err != nil {
			return again, err
		}
	}
	if err := t.drainer.removeOrphans(ctx, claim); err != nil {
		return 0, err
	}
	if claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved {
		t.launches.countReservations(ctx, cluster.ClassRef(claim.Spec.NodeClassRef))
	}
	return 0, t.releaseClaim(ctx, claim)
}

// instanceOf returns the ID of a claim's instance, "" if it certainly has none. A positive duration is the delay
// before the next call. An instance that was not recorded, because the process ended or the answer was lost, is found
// by its tag; that there is none is certain only after the cloud's lists have settled.
func (t *terminator) instanceOf(ctx context.Context, claim *karpv1.NodeClaim) (string, time.Duration, error) {
	if id := catalog.InstanceID(claim.Status.ProviderID); id != "" {
		return id, 0, nil
	}
	s := t.state.claims.get(claim.UID)
	if s.launched != nil {
		return s.launched.Instance.ID, 0, nil
	}
	if !s.mayHaveInstance {
		return "", 0, nil
	}
	all, err := t.instances.lister.Read(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("look for the instance of NodeClaim %s: %w", claim.Name, err)
	}
	for _, i := range all {
		if i.Claim == claim.Name && i.State != cloud.Terminated {
			t.state.claims.update(claim.UID, func(s *claimState) { s.launched = &cloud.LaunchResult{Instance: i} })
			return i.ID, 0, nil
		}
	}
	s = t.state.claims.update(claim.UID, func(s *claimState) {
		if s.searchedSince.IsZero() {
			s.searchedSince = t.now()
		}
	})
	if t.until(s.searchedSince, listsSettle) > 0 {
		return "", lookAgain, nil
	}
	return "", 0, nil
}

// terminateOthers terminates instances that were launched for the claim although it names another one, which was gone
// before its termination was requested or never existed, because the provider ID was overwritten. It returns the
// delay before the next call; 0 = there are none.
func (t *terminator) terminateOthers(ctx context.Context, claim *karpv1.NodeClaim, id string) (again time.Duration,
	err error,
) {
	if t.state.instances.get(id).terminations > 0 {
		return 0, nil
	}
	all, err := t.instances.lister.Read(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for instances of NodeClaim %s: %w", claim.Name, err)
	}
	for _, i := range all {
		if i.Claim != claim.Name || i.ID == id || i.State == cloud.Terminated {
			continue
		}
		t.log.Info("terminate an instance of a NodeClaim that names another one", "instance", i.ID, "nodeclaim", claim.Name,
			"names", id)
		wait, err := t.instances.terminate(ctx, i.ID)
		if err != nil {
			return 0, err
		}
		again = max(again, wait)
	}
	return again, nil
}

// setDeadline records when the claim's termination grace period ends.
func (t *terminator) setDeadline(ctx context.Context, claim *karpv1.NodeClaim) error {
	const key = karpv1.NodeClaimTerminationTimestampAnnotationKey
	if claim.Spec.TerminationGracePeriod == nil || claim.Annotations[key] != "" {
		return nil
	}
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[key] = claim.DeletionTimestamp.Add(claim.Spec.TerminationGracePeriod.Duration).Format(time.RFC3339)
	if err := t.writeMeta(ctx, before, claim); err != nil {
		return err
	}
	t.recorder.Event(claim, corev1.EventTypeWarning, graceExpiring, "All pods will be deleted by "+claim.Annotations[key])
	return nil
}

// deadline returns when the pods of a claim's Node must be gone; zero = never.
func deadline(claim *karpv1.NodeClaim) time.Time {
	if claim == nil {
		return time.Time{}
	}
	if at, err := time.Parse(time.RFC3339,
		claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]); err == nil {
		return at
	}
	if claim.Spec.TerminationGracePeriod != nil && claim.DeletionTimestamp != nil {
		return claim.DeletionTimestamp.Add(claim.Spec.TerminationGracePeriod.Duration)
	}
	return time.Time{}
}

// deleteNodes deletes the claim's Nodes, and reports whether one of them is being drained.
func (t *terminator) deleteNodes(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	nodes, err := t.nodesOf(ctx, claim.Status.ProviderID)
	if err != nil {
		return false, err
	}
	draining := false
	for _, node := range nodes {
		draining = draining || slices.Contains(node.Finalizers, karpv1.TerminationFinalizer)
		if node.DeletionTimestamp != nil {
			t.nodes.Add(node.Name)
			continue
		}
		if err := t.delete(ctx, node); err != nil {
			return false, fmt.Errorf("delete Node %s: %w", node.Name, err)
		}
	}
	return draining, nil
}

// instances queries the cloud for instances and terminates them.
type instances struct {
	*objects
	cloud  cloud.Provider
	lister *coalesce.Reader[[]cloud.Instance]
}

// terminate requests the termination of an instance, and returns the delay before the next request; 0 when the
// instance is gone.
func (i *instances) terminate(ctx context.Context, id string) (time.Duration, error) {
	if i.state.instances.get(id).gone {
		return 0, nil
	}
	err := i.cloud.Terminate(ctx, id)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		i.state.instances.update(id, func(s *instanceState) { s.gone = true })
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("terminate %s: %w", id, err)
	}
	n := i.state.instances.update(id, func(s *instanceState) { s.terminations++ }).terminations - 1
	return min(firstPoll<<min(n, 10), maxPoll), nil
}

// isGone asks the cloud whether an instance is gone.
func (i *instances) isGone(ctx context.Context, id string) (bool, error) {
	_, err := i.cloud.Get(ctx, id)
	if errors.Is(err, cloud.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for instance %s: %w", id, err)
	}
	return false, nil
}
