package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A host's clock is set back an hour and ahead a day, as after a suspend or by a time server: machines that are there stay,
// and nothing is launched twice. While it is behind, new ones come too.
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
	for range 30 { // several looks for what is lost
		s.clock.Advance(10 * time.Second)
	}
	stays("after a while")
	s.started(2, 2)
}
