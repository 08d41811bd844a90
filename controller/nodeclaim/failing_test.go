package nodeclaim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// untilLaunchSucceeded waits until the pool's condition LaunchSucceeded has the reason, or is absent if reason is "".
func (s *story) untilLaunchSucceeded(pool *karpv1.NodePool, reason string) {
	s.Helper()
	s.passing(20*time.Millisecond, "LaunchSucceeded of the pool has reason "+reason, func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		got := pool.StatusConditions(status.WithObservedOnly()).Get("LaunchSucceeded")
		if got == nil && reason != "" || got != nil && (got.Reason != reason || !got.IsFalse()) {
			return fmt.Errorf("condition is %v", got)
		}
		return nil
	})
}

// A launch that the cloud rejects is not retried while the pods wait: the claim is deleted, and its pool says why and
// backs off.
func TestARefusedLaunchGivesItsPodsToOtherPools(t *testing.T) {
	s := tellQuickly(t)
	pool := s.pool("refusing")
	s.region.set(func() {
		s.region.fail = fmt.Errorf("create launch template: %w: user data is too long", cloud.ErrRefused)
	})
	began := s.clock.Now()
	claim := s.claim("refusing-1", ownedBy(pool))
	s.passing(20*time.Millisecond, "the claim is gone", gone(s, claim))
	if took := s.clock.Now().Sub(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	s.untilLaunchSucceeded(pool, "LaunchFailed")
	s.event("refusing-1", "LaunchFailed")
	s.started(0, 0)
	s.region.set(func() { s.region.fail = nil })
	s.ready("refusing-2", ownedBy(pool))
	s.untilLaunchSucceeded(pool, "")
}

// Missing permissions may be granted, but a claim waits for them only briefly.
func TestALaunchWithoutPermissionIsGivenUpSoon(t *testing.T) {
	s := tellQuickly(t)
	pool := s.pool("forbidden")
	s.region.set(func() { s.region.fail = fmt.Errorf("no permission: %w", cloud.ErrUnauthorized) })
	claim := s.claim("forbidden-1", ownedBy(pool))
	s.untilLaunchFailed(claim)
	s.passing(100*time.Millisecond, "the claim is gone", gone(s, claim))
	s.untilLaunchSucceeded(pool, "LaunchFailed")
}

// An instance that ends before it registers has a reason. If it could not start, its pool backs off.
func TestAMachineThatCannotStartMakesItsPoolBackOff(t *testing.T) {
	s := tellQuickly(t)
	pool := s.pool("dying")
	die := func(name, code string, atLaunch bool) {
		claim := s.claim(name, ownedBy(pool))
		s.until(name, karpv1.ConditionTypeLaunched)
		id := "i-" + name
		s.region.set(func() {
			delete(s.region.machines, id)
			s.region.ending = cloud.Ending{Code: code, Message: "it ended", AtLaunch: atLaunch}
			s.region.notices = append(s.region.notices,
				cloud.Interruption{InstanceIDs: []string{id}, Kind: cloud.InstanceTerminating, Handle: id})
		})
		s.passing(100*time.Millisecond, name+" is gone", gone(s, claim))
	}
	die("dying-1", "Client.UserInitiatedShutdown", false)
	s.untilLaunchSucceeded(pool, "")
	die("dying-2", "Client.InvalidKMSKey.InvalidState", true)
	s.untilLaunchSucceeded(pool, "InstanceTerminatedAtLaunch")
	s.event("dying-2", "InstanceTerminatedAtLaunch")
}
