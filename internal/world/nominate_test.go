package world

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/clock"
)

// Between the eviction of a pod and the next of its name nobody waits: the machine that was made ready for it must not
// look as if nobody needed it.
func TestAMachineStaysNeededForAMomentAfterTheLastPlanThatUsedIt(t *testing.T) {
	c := clock.NewVirtual(noon)
	w := New(Options{Clock: c})
	w.Update(nodeOf("n", 1))
	until := func() time.Time { return w.Snapshot().Nodes[0].NominatedUntil }

	w.Nominate(map[string]bool{"n": true})
	c.Advance(time.Hour)
	w.Nominate(map[string]bool{"n": true})
	if got := until(); !got.IsZero() {
		t.Errorf("the newest plan uses it, which is enough; but it counts until %s", got)
	}
	w.Nominate(nil)
	if got, want := until(), c.Now().Add(nominated); !got.Equal(want) {
		t.Errorf("the pod is on its way: counts until %s, want %s", got, want)
	}
	c.Advance(nominated)
	w.Nominate(nil)
	if got := until(); got.After(c.Now()) || len(w.nominees) > 0 {
		t.Errorf("nobody came: counts until %s still, %d are remembered", got, len(w.nominees))
	}
}
