package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// How often the end of a machine is asked for.
const (
	firstPoll = 250 * time.Millisecond
	mostPoll  = 5 * time.Second
)

// graceExpiring is the event that says when the pods of a machine will be gone at the latest.
const graceExpiring = "TerminationGracePeriodExpiring"

// finalize ends a claim: its Node first, which is drained, then its machine, then the claim itself.
func (l *Lifecycle) finalize(ctx context.Context, claim *karpv1.NodeClaim) (time.Duration, error) {
	if !slices.Contains(claim.Finalizers, karpv1.TerminationFinalizer) {
		return 0, nil
	}
	if l.isInFlight(claim.Name) {
		return 0, nil // the launch looks at the claim again when it is over
	}
	if err := l.setDeadline(ctx, claim); err != nil {
		return 0, err
	}
	draining, err := l.endNodes(ctx, claim)
	if draining || err != nil {
		return 0, err // the Node's end is an event
	}
	id, again, err := l.machineOf(ctx, claim)
	if again > 0 || err != nil {
		return again, err
	}
	if id != "" {
		if again, err := l.terminate(ctx, id); again > 0 || err != nil {
			return again, err
		}
		if again, err := l.terminateNamesakes(ctx, claim, id); again > 0 || err != nil {
			return again, err
		}
	}
	return 0, l.dropFinalizer(ctx, claim)
}

// terminateNamesakes asks for the end of machines that were launched for the claim though it names another, which the cloud never knew or
// had lost before anybody asked for its end: somebody wrote another provider ID. Its durations are those of terminate.
func (l *Lifecycle) terminateNamesakes(ctx context.Context, claim *karpv1.NodeClaim, id string) (again time.Duration, err error) {
	if l.wasTold(id) {
		return 0, nil
	}
	machines, err := l.lists.machines(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for machines of NodeClaim %s: %w", claim.Name, err)
	}
	for _, m := range machines {
		if m.Claim != claim.Name || m.ID == id || m.State == cloud.Terminated {
			continue
		}
		l.o.Log.Info("machine of a NodeClaim that names another is terminated", "machine", m.ID, "nodeclaim", claim.Name, "names", id)
		wait, err := l.terminate(ctx, m.ID)
		if err != nil {
			return 0, err
		}
		again = max(again, wait)
	}
	return again, nil
}

// setDeadline notes when the claim's termination grace period ends.
func (l *Lifecycle) setDeadline(ctx context.Context, claim *karpv1.NodeClaim) error {
	const key = karpv1.NodeClaimTerminationTimestampAnnotationKey
	if claim.Spec.TerminationGracePeriod == nil || claim.Annotations[key] != "" {
		return nil
	}
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[key] = claim.DeletionTimestamp.Add(claim.Spec.TerminationGracePeriod.Duration).Format(time.RFC3339)
	if err := l.writeMeta(ctx, before, claim); err != nil {
		return err
	}
	l.o.Recorder.Event(claim, corev1.EventTypeWarning, graceExpiring, "All pods will be deleted by "+claim.Annotations[key])
	return nil
}

// deadline is when the pods of a claim's machine must be gone; zero = never.
func deadline(claim *karpv1.NodeClaim) time.Time {
	if claim == nil {
		return time.Time{}
	}
	if at, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]); err == nil {
		return at
	}
	if claim.Spec.TerminationGracePeriod != nil && claim.DeletionTimestamp != nil {
		return claim.DeletionTimestamp.Add(claim.Spec.TerminationGracePeriod.Duration)
	}
	return time.Time{}
}

// endNodes asks for the end of the claim's Nodes, and reports whether one of them is being drained.
func (l *Lifecycle) endNodes(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	nodes, err := l.nodesOf(ctx, claim.Status.ProviderID)
	if err != nil {
		return false, err
	}
	draining := false
	for _, node := range nodes {
		if slices.Contains(node.Finalizers, karpv1.TerminationFinalizer) {
			draining = true
		}
		if node.DeletionTimestamp != nil {
			l.nodes.Add(node.Name)
			continue
		}
		uid := node.UID
		if err := l.o.Client.Delete(ctx, node.DeepCopy(), client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete Node %s: %w", node.Name, err)
		}
	}
	return draining, nil
}

// terminate asks for a machine's end, and says when to ask again; 0 when it is gone.
func (l *Lifecycle) terminate(ctx context.Context, id string) (time.Duration, error) {
	if l.isGone(id) {
		return 0, nil
	}
	err := l.o.Cloud.Terminate(ctx, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		l.gone[id] = true
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("terminate %s: %w", id, err)
	}
	n := l.polls[id]
	l.polls[id]++
	return min(firstPoll<<min(n, 10), mostPoll), nil
}

// wasTold reports whether this process asked for a machine's end while it was there.
func (l *Lifecycle) wasTold(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.polls[id] > 0
}

func (l *Lifecycle) isGone(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone[id]
}
