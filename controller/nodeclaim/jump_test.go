package nodeclaim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// A host's clock is set back an hour and then ahead a day, as after a suspend or by a time server: existing nodes
// stay, and nothing is launched twice. While the clock is behind, new nodes can still be launched.
func TestTheClockJumps(t *testing.T) {
	s := tellQuickly(t)
	old := s.ready("before")
	stays := func(when string) {
		t.Helper()
		s.must(s.api.Get(context.Background(), client.ObjectKeyFromObject(old), old))
		if old.DeletionTimestamp != nil {
			t.Errorf("%s the machine goes", when)
		}
	}
	s.clock.Advance(-time.Hour)
	s.ready("set-back")
	stays("an hour back")
	s.clock.Advance(25 * time.Hour)
	stays("a day ahead")
	for range 30 { // several searches for lost instances
		s.clock.Advance(10 * time.Second)
	}
	stays("after a while")
	s.started(2, 2)
}

// The controller's clock is six minutes ahead of the API server's, or no controller ran for that long: each claim
// seems too old to be launched. It is launched all the same, and only a claim whose launch fails is given up.
func TestAClaimThatSeemsOldIsLaunchedBeforeItIsGivenUp(t *testing.T) {
	s := tellAt(t, clock.NewVirtual(time.Now().Add(6*time.Minute)))
	s.ready("seems-old")
	s.region.set(func() { s.region.fail = errors.New("the cloud is out of order") })
	fails := s.claim("fails-too")
	s.passing(20*time.Millisecond, "the claim is gone", gone(s, fails))
	asked := 0
	s.region.set(func() {
		for _, req := range s.region.requests {
			if req.Claim == fails.Name {
				asked++
			}
		}
	})
	if asked == 0 {
		t.Error("it was given up before the cloud was asked")
	}
	s.started(1, 1)
}
