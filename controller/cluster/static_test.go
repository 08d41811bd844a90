package cluster

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// The feature gate StaticCapacity is off: a pool with replicas neither gets nor loses nodes, and says why.
func TestAStaticPoolIsLeftAloneWithoutItsGate(t *testing.T) {
	replicas := int64(1)
	for _, closed := range []bool{true, false} {
		w := New(Options{Clock: clock.NewVirtual(noon), NoStatic: closed})
		pool := poolOf("p", 1)
		pool.Spec.Replicas = &replicas
		w.SetCatalog(class, types1(), "")
		w.Update(pool)
		for _, name := range []string{"a", "b", "c"} {
			w.Update(nodeOf(name, 1))
			w.Update(claimOf("claim-"+name, name, 1))
		}
		s := w.Snapshot()
		if got := strings.Contains(s.Pools[0].NotReady, "StaticCapacity"); got != closed {
			t.Errorf("closed %v: NotReady is %q", closed, s.Pools[0].NotReady)
		}
		plan := engine.Disrupt(s, model.Policy{})
		if got := len(plan.Removals) == 0; got != closed {
			t.Errorf("closed %v: %d of 3 nodes are removed", closed, len(plan.Removals))
		}
	}
}

// Just after a start the prices of nodes are unknown, and what a removal saves could not be said.
func TestNodesStayUntilTheirNodeClassWasRead(t *testing.T) {
	w := New(Options{Clock: clock.NewVirtual(noon)})
	w.Update(poolOf("p", 1))
	w.Update(nodeOf("a", 1))
	w.Update(claimOf("claim-a", "a", 1))
	plan := engine.Disrupt(w.Snapshot(), model.Policy{})
	if len(plan.Removals) > 0 || len(plan.Kept) != 1 || plan.Kept[0].Reason.Rule != model.RulePoolNotReady {
		t.Errorf("before: %+v", plan)
	}
	w.SetCatalog(class, types1(), "")
	plan = engine.Disrupt(w.Snapshot(), model.Policy{})
	if len(plan.Removals) != 1 || plan.Removals[0].Saves <= 0 {
		t.Errorf("after: %+v", plan)
	}
}
