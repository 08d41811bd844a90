package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// How long a claim may take (karpenter.md §3.1).
const (
	launchTimeout       = 5 * time.Minute
	registrationTimeout = 15 * time.Minute
)

// turn is one look at a claim. Steps change the claim's status and its Node; what changed is written at the end.
type turn struct {
	claim *karpv1.NodeClaim
	node  *corev1.Node     // nil while there is none
	pool  *karpv1.NodePool // shared, not to be modified; nil if there is none
	again time.Duration
}

// in asks for another look in d.
func (t *turn) in(d time.Duration) {
	if d > 0 && (t.again == 0 || d < t.again) {
		t.again = d
	}
}

// claim brings one claim a step further.
func (l *Lifecycle) claim(ctx context.Context, name string) (time.Duration, error) {
	claim, err := l.readClaim(ctx, name)
	if claim == nil {
		return 0, err
	}
	if claim.DeletionTimestamp != nil {
		return l.finalize(ctx, claim)
	}
	if l.deletedJustNow(claim) {
		return deletionShown, nil
	}
	pool, err := l.poolOf(ctx, claim)
	if err != nil {
		return 0, err
	}
	t := &turn{claim: claim, pool: pool}
	before := claim.DeepCopy()
	for _, step := range []func(context.Context, *turn) (goOn bool, err error){
		l.orphaned, l.expire, l.depart, l.askLaunch, l.drift, l.register, l.repair, l.initialize, l.consistent, l.noteIdle,
	} {
		goOn, stepErr := step(ctx, t)
		if stepErr != nil {
			err = stepErr
		}
		if !goOn || stepErr != nil {
			break
		}
	}
	if claim.DeletionTimestamp == nil {
		err = errors.Join(err, l.writeStatus(ctx, before, claim))
	}
	return t.again, err
}

// expire ends a claim that is older than it may get: at once, no budget holds it and nothing is started before
// (karpenter.md §3.1).
func (l *Lifecycle) expire(ctx context.Context, t *turn) (bool, error) {
	if t.claim.Spec.ExpireAfter.Duration == nil {
		return true, nil
	}
	age := *t.claim.Spec.ExpireAfter.Duration
	if left := t.claim.CreationTimestamp.Add(age).Sub(l.now()); left > 0 {
		t.in(left)
		return true, nil
	}
	if err := l.deleteClaim(ctx, t.claim, "expired"); err != nil {
		return false, err
	}
	l.tell(t.claim, l.o.World.Node(t.claim.Status.NodeName), corev1.EventTypeNormal, "Expired",
		fmt.Sprintf("NodeClaim is older than spec.expireAfter (%s) and is deleted", age))
	return false, nil
}

// askLaunch hands a claim that has no machine to the launch workers, and gives up on one that takes too long. It is tried once
// however old it seems: nobody may have been there, or the API server's clock may be behind ours.
func (l *Lifecycle) askLaunch(ctx context.Context, t *turn) (bool, error) {
	if conditions.IsTrue(t.claim, karpv1.ConditionTypeLaunched) {
		return true, nil
	}
	left := t.claim.CreationTimestamp.Add(launchTimeout).Sub(l.now())
	flying, tried := l.launching(t.claim)
	if left <= 0 && tried && !flying {
		return false, l.giveUp(ctx, t.claim, "launch_timeout")
	}
	t.in(max(left, time.Second))
	if !flying && !tried { // one that failed is tried again by the launch queue
		l.launches.Add(t.claim.Name)
	}
	return false, nil
}

// giveUp ends a claim whose machine did not become a Node in time.
func (l *Lifecycle) giveUp(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	if err := l.deleteClaim(ctx, claim, why); err != nil {
		return err
	}
	l.registered(claim, false)
	return nil
}

func (l *Lifecycle) registered(claim *karpv1.NodeClaim, yes bool) {
	if yes {
		l.o.World.LaunchesAgain(claim.Labels[karpv1.NodePoolLabelKey])
	}
	if l.o.Registered != nil {
		l.o.Registered(claim, yes)
	}
}

// launching reports whether a claim's launch is under way, and whether it was tried at all.
func (l *Lifecycle) launching(claim *karpv1.NodeClaim) (now, ever bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight[claim.Name], l.tried[claim.UID]
}

func (l *Lifecycle) isInFlight(claim string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight[claim]
}

func (l *Lifecycle) setInFlight(claim string, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if yes {
		l.inFlight[claim] = true
	} else {
		delete(l.inFlight, claim)
	}
}
