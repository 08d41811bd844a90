package cycle

import (
	"errors"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// asked is a Disrupt that records where each of its calls began, and stops at the given names.
type asked struct {
	after []string
	what  []int
	stops []string
}

func (a *asked) disrupt(_ *model.Snapshot, p model.Policy) model.Plan {
	a.after, a.what = append(a.after, p.After.Underutilized), append(a.what, p.MaxWhatIfs)
	if len(a.stops) == 0 {
		return model.Plan{}
	}
	at := a.stops[0]
	a.stops = a.stops[1:]
	return model.Plan{
		After: model.Cursor{Underutilized: at},
		Kept:  []model.Kept{{Node: "n-" + at, Reason: model.Reason{Rule: model.RuleNotCheaper}}},
	}
}

func TestASearchGoesOnWhereItStoppedAndRestsAtItsEnd(t *testing.T) {
	s, a := newStage(), &asked{stops: []string{"f", "m"}}
	s.nodes = []model.Node{{Name: "n-f"}, {Name: "n-m"}}
	turns := begin(t, s, Options{Disrupt: a.disrupt})
	await(t, turns)
	for _, at := range []time.Duration{goOn, 2 * goOn} {
		s.wakesAt(t, at)
		s.Advance(goOn)
		await(t, turns)
	}
	s.wakesAt(t, 2*goOn+resync)
	s.Advance(resync)
	await(t, turns)
	if len(a.after) != 3 || a.after[1] != "f" || a.after[2] != "m" {
		t.Fatalf("the search began at %q", a.after)
	}
	for range int(LookAgain/resync) - 2 {
		s.wakesAt(t, s.Now().Sub(noon)+resync)
		s.Advance(resync)
		await(t, turns)
	}
	if len(a.after) != 3 {
		t.Fatalf("nothing has changed for less than %s, and it was looked again: %q", LookAgain, a.after)
	}
	s.wakesAt(t, s.Now().Sub(noon)+resync)
	s.Advance(resync)
	await(t, turns)
	if len(a.after) != 4 {
		t.Error("in five minutes prices may have changed")
	}
	s.wakesAt(t, s.Now().Sub(noon)+resync)
	s.nodes = []model.Node{{Name: "n-f"}}
	s.Advance(resync)
	await(t, turns)
	if len(a.after) != 5 {
		t.Error("a machine is gone, and nobody looked")
	}
}

// A pool that allows something else may have a cheaper place for pods, although no node has changed. What is the same
// in a new snapshot is no reason to search.
func TestAPoolThatChangesIsSearchedForAtOnce(t *testing.T) {
	pool := func() []model.Pool {
		return []model.Pool{{
			Name: "p", Requirements: model.NewRequirements(model.OneOf(model.LabelArch, "amd64")),
			Taints:       []model.Taint{{Key: "team", Value: "a", Effect: model.NoSchedule}},
			Reservations: []model.Reservation{{ID: "cr-1", Free: 1}},
		}}
	}
	for name, change := range map[string]func(*model.Pool){
		"requirements": func(p *model.Pool) {
			p.Requirements = model.NewRequirements(model.OneOf(model.LabelArch, "amd64", "arm64"))
		},
		"minimum of values": func(p *model.Pool) { p.Requirements[0].MinValues = 2 },
		"bound": func(p *model.Pool) {
			bound := int64(4)
			p.Requirements[0].Gte = &bound
		},
		"taints":               func(p *model.Pool) { p.Taints = nil },
		"minimum of nodes":     func(p *model.Pool) { p.MinNodes = 1 },
		"reserved instances":   func(p *model.Pool) { p.Reservations[0].Free = 2 },
		"another reservation":  func(p *model.Pool) { p.Reservations[0].ID = "cr-2" },
		"no more reservations": func(p *model.Pool) { p.Reservations = nil },
	} {
		before := &model.Snapshot{Pools: pool()}
		if changed(before, &model.Snapshot{Pools: pool()}) {
			t.Fatal("an equal pool counts as changed")
		}
		now := &model.Snapshot{Pools: pool()}
		if change(&now.Pools[0]); !changed(before, now) {
			t.Errorf("%s: the pool has changed, and nobody looks", name)
		}
	}
}

// In a large cluster snapshots change all the time, and a search takes long: it rests longer than its pieces take,
// which leaves most of the processor time to new pods.
func TestASearchRestsLongerThanItsPiecesTake(t *testing.T) {
	const piece = 30 * time.Millisecond
	s, a := newStage(), &asked{stops: []string{"f"}}
	s.nodes = []model.Node{{Name: "n-f"}}
	turns := begin(t, s, Options{Disrupt: func(snapshot *model.Snapshot, p model.Policy) model.Plan {
		if p.MaxWhatIfs != noWhatIfs {
			s.Advance(piece)
		}
		return a.disrupt(snapshot, p)
	}})
	await(t, turns)
	s.wakesAt(t, piece+rests*piece)
	s.changed <- struct{}{}
	s.wakesAt(t, piece+minQuiet)
	s.Advance(minQuiet)
	await(t, turns)
	if len(a.what) != 2 || a.what[1] != noWhatIfs {
		t.Fatalf("plans to be tried: %v", a.what)
	}
	s.wakesAt(t, piece+rests*piece)
	s.Advance(rests*piece - minQuiet)
	await(t, turns)
	if len(a.what) != 3 || a.what[2] != 0 || a.after[2] != "f" {
		t.Errorf("plans to be tried: %v, begun at %q", a.what, a.after)
	}
}

func TestWhileMachinesAreLaunchedNoneIsSearchedFor(t *testing.T) {
	s, a := newStage(), &asked{}
	s.result = Result{Created: []string{"c"}}
	turns := begin(t, s, Options{Disrupt: a.disrupt})
	await(t, turns)
	s.result = Result{}
	s.wakesAt(t, launchPause)
	s.Advance(launchPause)
	await(t, turns)
	if len(a.what) != 2 || a.what[0] != noWhatIfs || a.what[1] != 0 {
		t.Errorf("plans to be tried: %v", a.what)
	}
}

func TestWhereMachinesAreAlwaysLaunchedASearchIsMadeNowAndThen(t *testing.T) {
	s, a := newStage(), &asked{}
	s.result = Result{Created: []string{"c"}}
	turns := begin(t, s, Options{Disrupt: a.disrupt})
	await(t, turns)
	for s.Now().Before(noon.Add(maxPause)) {
		s.wakesAt(t, s.Now().Sub(noon)+launchPause)
		s.Advance(launchPause)
		await(t, turns)
	}
	if n := len(a.what); n != 11 || a.what[n-2] != noWhatIfs || a.what[n-1] != 0 {
		t.Errorf("plans to be tried, second by second: %v", a.what)
	}
}

func TestWhatCouldNotBeDoneIsLookedAtAgain(t *testing.T) {
	s, calls := newStage(), 0
	turns := begin(t, s, Options{Disrupt: func(*model.Snapshot, model.Policy) model.Plan {
		calls++
		s.result = Result{Refused: []Refusal{{Object: "command x", Why: "a pod has come"}}}
		return model.Plan{Commands: []model.Command{{ID: "x"}}}
	}})
	await(t, turns)
	s.wakesAt(t, resync)
	s.Advance(resync)
	if d := await(t, turns); calls != 2 || len(d.Plan.Commands) != 1 || len(d.Result.Refused) == 0 {
		t.Errorf("%d calls, %+v", calls, d)
	}
}

func TestACommandThatWaitsIsLookedAtWhenItsTimeIsOver(t *testing.T) {
	s, advanced := newStage(), 0
	s.advance = func(now *model.Snapshot, stillTrue StillTrue) (Result, time.Time) {
		advanced++
		if reason := stillTrue(now, model.Command{ID: "x"}); reason.Rule != model.RuleGone {
			t.Errorf("reason %+v", reason)
		}
		return Result{Undone: []Undone{{Command: "x"}}}, noon.Add(3 * time.Second)
	}
	turns := begin(t, s, Options{StillTrue: func(*model.Snapshot, model.Policy, model.Command) model.Reason {
		return model.Reason{Rule: model.RuleGone}
	}})
	if d := await(t, turns); len(d.Result.Undone) != 1 {
		t.Errorf("decision %+v", d.Result)
	}
	s.wakesAt(t, 3*time.Second)
}

func TestOnlyPodsWithoutAPlaceArePending(t *testing.T) {
	s := newStage()
	s.pending = []model.Pod{
		{PodKey: model.PodKey{Name: "waits"}},
		{PodKey: model.PodKey{Name: "leaves"}, From: "n"},
		{PodKey: model.PodKey{Name: "room"}, Virtual: true},
	}
	if d := await(t, begin(t, s, Options{})); d.Pending != 1 {
		t.Errorf("%d pending", d.Pending)
	}
}

func TestDriftIsLookedAtWhenNoPodIsOnItsWayAnyMore(t *testing.T) {
	s, a := newStage(), &asked{}
	s.pools = []model.Pool{{Name: "p", Disruption: model.DisruptionPolicy{Never: true}}}
	s.nodes = []model.Node{{
		Name: "n", Claim: "n", Pool: "p", State: model.Initialized, Drifted: "NodePoolDrifted",
		NominatedUntil: noon.Add(4 * time.Second),
	}}
	turns := begin(t, s, Options{Disrupt: a.disrupt})
	await(t, turns)
	s.wakesAt(t, 4*time.Second)
	s.Advance(4 * time.Second)
	await(t, turns)
	if len(a.after) != 2 {
		t.Errorf("looked %d times", len(a.after))
	}
}

// While the API server rejects what plans request, a search that could continue at once waits, since each cycle
// repeats the requests.
func TestASearchDoesNotMakeTheLoopTryWhatFailsWithoutPause(t *testing.T) {
	s, a := newStage(), &asked{stops: []string{"f", "m"}}
	s.result = Result{Errors: []error{errors.New("no")}}
	turns := begin(t, s, Options{Disrupt: a.disrupt})
	await(t, turns)
	s.wakesAt(t, retry)
}

// A node that exceeds its maximum age, or on which a DaemonSet's pod has waited long enough, is evaluated at that
// moment, not minutes later.
func TestTheNextCauseToReplaceAMachineIsAwaited(t *testing.T) {
	now := time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)
	s := &model.Snapshot{
		Now: now, Pools: []model.Pool{{Name: "p", Disruption: model.DisruptionPolicy{Never: true}}},
		Nodes: []model.Node{{
			Name: "n", Claim: "c", Pool: "p", State: model.Initialized, Created: now.Add(-23 * time.Hour),
			MissingDaemons: []model.MissingDaemon{{DaemonSet: "kube-system/agent", Since: now.Add(-20 * time.Second)}},
		}},
	}
	if at, ok := NextDue(s); ok {
		t.Errorf("nobody asked for it: %s", at)
	}
	s.Pools[0].Disruption.SoftExpireAfter = 24 * time.Hour
	if at, ok := NextDue(s); !ok || !at.Equal(now.Add(time.Hour)) {
		t.Errorf("it is too old in an hour, not at %s", at)
	}
	s.Pools[0].Disruption.ReplaceCrowded = true
	if at, ok := NextDue(s); !ok || !at.Equal(now.Add(40*time.Second)) {
		t.Errorf("the pod has waited for a minute in 40 s, not at %s", at)
	}
}

func TestTheNextConsolidationIsDueAfterTheLastPodEvent(t *testing.T) {
	now := time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)
	s := &model.Snapshot{
		Now: now, Pools: []model.Pool{{Name: "p", Disruption: model.DisruptionPolicy{ConsolidateAfter: 30 * time.Second}}},
		Nodes: []model.Node{{
			Name: "n", Claim: "c", Pool: "p", State: model.Initialized,
			Initialized: now.Add(-time.Hour), LastPodEvent: now.Add(-10 * time.Second),
		}},
	}
	if at, ok := NextDue(s); !ok || !at.Equal(now.Add(20*time.Second)) {
		t.Errorf("consolidateAfter is over in 20 s, not at %s", at)
	}
}

func TestPodsThatRipenOneAfterTheOtherAreLookedAtTogether(t *testing.T) {
	now := time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ before, next, want time.Duration }{
		{0, time.Second, MinRipening},
		{0, time.Hour, time.Hour},
		{2 * time.Minute, time.Hour, 2 * time.Minute},
		{-time.Minute, time.Hour, time.Hour},
	} {
		if got := ripening(now.Add(c.before), now.Add(c.next), now).Sub(now); got != c.want {
			t.Errorf("before in %s, now in %s: looked at in %s, want %s", c.before, c.next, got, c.want)
		}
	}
}

func TestASearchGoesOnWhenPodsAreOldEnough(t *testing.T) {
	s, looks := newStage(), 0
	s.nodes = []model.Node{{Name: "n"}}
	turns := begin(t, s, Options{Disrupt: func(s *model.Snapshot, _ model.Policy) model.Plan {
		if looks++; looks > 1 {
			return model.Plan{}
		}
		return model.Plan{RecheckAt: s.Now.Add(90 * time.Second)}
	}})
	await(t, turns)
	for s.Now().Sub(noon) < 90*time.Second {
		if looks != 1 {
			t.Fatalf("%d looks, the pods are too young until 90 s", looks)
		}
		s.Advance(resync)
		await(t, turns)
	}
	if looks != 2 {
		t.Errorf("%d looks, 2 are due: at first and when pods were old enough", looks)
	}
}
