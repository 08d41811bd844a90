package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Between the eviction of a pod and the creation of its successor, no pod is pending: the node that was launched for
// the pod must not look unneeded.
func TestAMachineStaysNeededForAMomentAfterTheLastPlanThatUsedIt(t *testing.T) {
	c := clock.NewVirtual(noon)
	w := New(Options{Clock: c})
	w.Update(nodeOf("n", 1))
	until := func() time.Time { return w.Snapshot().Nodes[0].NominatedUntil }

	w.Nominate(map[string]bool{"n": true}, nil)
	c.Advance(time.Hour)
	w.Nominate(map[string]bool{"n": true}, nil)
	if got := until(); !got.IsZero() {
		t.Errorf("the newest plan uses it, which is enough; but it counts until %s", got)
	}
	w.Nominate(nil, nil)
	if got, want := until(), c.Now().Add(nominated); !got.Equal(want) {
		t.Errorf("the pod is on its way: counts until %s, want %s", got, want)
	}
	c.Advance(nominated)
	w.Nominate(nil, nil)
	if got := until(); got.After(c.Now()) || len(w.nominees) > 0 {
		t.Errorf("nobody came: counts until %s still, %d are remembered", got, len(w.nominees))
	}
}

// A snapshot nominates a promised pod to the claim, and to the Node once there is one.
func TestAPromisedMachineIsInTheSnapshotByItsName(t *testing.T) {
	c := clock.NewVirtual(noon)
	w := New(Options{Clock: c})
	pod := podOf("web", "", "1", 1)
	w.Update(pod)
	w.Update(claimOf("claim", "", 1))
	nominated := func() string {
		t.Helper()
		s := w.Snapshot()
		if len(s.Pending) != 1 {
			t.Fatalf("%d pods wait", len(s.Pending))
		}
		return s.Pending[0].Nominated
	}
	if got := nominated(); got != "" {
		t.Errorf("nobody promised anything, but it is nominated to %q", got)
	}
	key := w.Snapshot().Pending[0].PodKey
	w.Nominate(nil, map[model.PodKey]string{key: "claim"})
	if got := nominated(); got != "claim" {
		t.Errorf("nominated to %q, want the claim", got)
	}
	if got := w.Promised("claim"); len(got) != 1 || got[0] != key {
		t.Errorf("promised the claim are %v", got)
	}
	w.Update(claimOf("claim", "node", 2))
	w.Update(nodeOf("node", 1))
	if got := nominated(); got != "node" {
		t.Errorf("nominated to %q, want the Node that came", got)
	}
	w.Nominate(nil, nil)
	if got := nominated(); got != "" || len(w.Promised("claim")) > 0 {
		t.Errorf("the newest plan promises nothing, but it is nominated to %q", got)
	}
}

// A node is contested if another pending pod, of a different shape, may take the capacity of the pods it was launched
// for.
func TestANodeIsContestedByPodsOfOtherSorts(t *testing.T) {
	w := New(Options{Clock: clock.NewVirtual(noon)})
	w.Update(claimOf("claim", "", 1))
	promise := func(names ...string) {
		promised := map[model.PodKey]string{}
		for _, p := range w.Snapshot().Pending {
			if slices.Contains(names, p.Name) {
				promised[p.PodKey] = "claim"
			}
		}
		w.Nominate(nil, promised)
	}
	want := func(contested bool, why string) {
		t.Helper()
		if got := w.Contested("claim"); got != contested {
			t.Errorf("contested: %v; %s", got, why)
		}
	}
	want(false, "nobody waits")
	w.Update(podOf("small", "", "1", 1))
	promise("small")
	want(false, "the only pod has its place there")
	w.Update(podOf("like-it", "", "1", 1))
	want(false, "either of two that are alike may have it")
	w.Update(podOf("large", "", "2", 1))
	want(true, "the large one may take the small one's room")
	promise("small", "like-it", "large")
	want(false, "all that wait have their places there")
}
