package cycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

var noon = time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)

// stage is a cluster with nothing but a clock: each snapshot is what the test sets.
type stage struct {
	*clock.Virtual
	changed   chan struct{}
	nodes     []model.Node
	pending   []model.Pod
	pools     []model.Pool
	given     *model.Snapshot // instead of these nodes, pods and pools; nil = none
	applied   []model.Plan
	reported  []model.Plan
	unknown   error // why Recall fails
	workloads uint64
	result    Result                                               // the result of applying a plan
	advance   func(*model.Snapshot, StillTrue) (Result, time.Time) // nil = nothing is in progress
}

func (s *stage) Changed() <-chan struct{} { return s.changed }

func (s *stage) Workloads() uint64 { return s.workloads }

func (s *stage) Nominate(map[string]bool, map[model.PodKey]string) {}

func (s *stage) Snapshot() *model.Snapshot {
	if s.given != nil {
		now := *s.given
		now.Now = s.Now()
		return &now
	}
	return &model.Snapshot{Now: s.Now(), Nodes: s.nodes, Pools: s.pools, Pending: s.pending}
}

func (s *stage) Apply(_ context.Context, _ *model.Snapshot, p model.Plan) Result {
	s.applied = append(s.applied, p)
	return s.result
}

// player is the stage's Applier.
type player struct{ *stage }

func (p player) Report(_ *model.Snapshot, plan model.Plan, _ map[string]string) {
	p.reported = append(p.reported, plan)
}

func (p player) Advance(_ context.Context, now *model.Snapshot, stillTrue StillTrue) (Result, time.Time) {
	if p.advance == nil {
		return Result{}, time.Time{}
	}
	return p.advance(now, stillTrue)
}

func nothing(*model.Snapshot, model.Policy) model.Plan { return model.Plan{} }

func fine(*model.Snapshot, model.Policy, model.Plan) []check.Violation { return nil }

// begin runs the controller on the stage and sends each cycle's decision to turns.
func begin(t *testing.T, s *stage, o Options) (turns chan Decision) {
	t.Helper()
	turns = make(chan Decision, 100)
	o.State, o.Applier, o.Clock = s, player{s}, s.Virtual
	o.Recall = func(context.Context) error { return s.unknown }
	if o.Provision == nil {
		o.Provision = nothing
	}
	if o.Disrupt == nil {
		o.Disrupt = nothing
	}
	if o.Check == nil {
		o.Check = fine
	}
	o.OnDecision = func(d Decision) { turns <- d }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return turns
}

func newStage() *stage { return &stage{Virtual: clock.NewVirtual(noon), changed: make(chan struct{})} }

// await returns the next cycle's decision.
func await(t *testing.T, turns chan Decision) Decision {
	t.Helper()
	select {
	case d := <-turns:
		return d
	case <-time.After(time.Minute):
		t.Fatal("no decision")
		return Decision{}
	}
}

// wakesAt waits until the controller sleeps until a time, given from noon.
func (s *stage) wakesAt(t *testing.T, want time.Duration) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		at, ok := s.Next()
		if ok && at.Equal(noon.Add(want)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("sleeps until %v (%v), want noon + %v", at, ok, want)
		}
		<-time.After(time.Millisecond)
	}
}

func TestALonePodIsAnsweredAfterAMomentOfQuiet(t *testing.T) {
	s := newStage()
	turns := begin(t, s, Options{})
	await(t, turns)
	s.wakesAt(t, resync)
	s.changed <- struct{}{}
	s.wakesAt(t, minQuiet)
	s.Advance(minQuiet)
	if d := await(t, turns); !d.At.Equal(noon.Add(minQuiet)) {
		t.Errorf("decided at %v", d.At)
	}
}

// A manifest's workloads come one after another: the first plan is for all of them, and in time.
func TestPodsOfSeveralControllersArePlannedTogether(t *testing.T) {
	s := newStage()
	turns := begin(t, s, Options{})
	await(t, turns)
	for i := range 3 {
		s.workloads++
		s.changed <- struct{}{}
		s.wakesAt(t, time.Duration(i)*100*time.Millisecond+minGather)
		s.Advance(100 * time.Millisecond)
	}
	s.changed <- struct{}{} // a pod of one of them
	s.wakesAt(t, 2*100*time.Millisecond+minGather)
	s.Advance(100 * time.Millisecond)
	if d := await(t, turns); !d.At.Equal(noon.Add(2*100*time.Millisecond + minGather)) {
		t.Errorf("decided at %v", d.At)
	}
	s.wakesAt(t, 400*time.Millisecond+resync)
	s.workloads++ // seen in the next cycle, which begins before the change is signalled
	s.Advance(resync)
	await(t, turns)
	s.wakesAt(t, 400*time.Millisecond+2*resync)
	s.changed <- struct{}{}
	s.wakesAt(t, 400*time.Millisecond+resync+minQuiet)
	var p Pace
	for i := range 100 {
		now := noon.Add(time.Duration(i) * 100 * time.Millisecond)
		p.Change(now)
		p.Workload(now)
	}
	if at, _ := p.Due(); !at.Equal(noon.Add(maxGather)) {
		t.Errorf("workloads that keep coming are planned for at %v", at)
	}
}

func TestARushIsAnsweredInFewPlans(t *testing.T) {
	var p Pace
	now, plans := noon, 0
	for range 1000 { // a pod every 2 ms for 2 s
		if at, ok := p.Due(); ok && !at.After(now) {
			plans++
			p.Settled()
		}
		p.Change(now)
		now = now.Add(2 * time.Millisecond)
	}
	if plans < 5 || plans > 8 {
		t.Errorf("%d plans in 2 s", plans)
	}
}

func TestTheNextConsolidationIsAwaitedNotPolled(t *testing.T) {
	s := newStage()
	s.pools = []model.Pool{{Name: "p", Disruption: model.DisruptionPolicy{ConsolidateAfter: 7 * time.Second}}}
	s.nodes = []model.Node{
		{Name: "a", Claim: "a", Pool: "p", State: model.Initialized, Initialized: noon, LastPodEvent: noon.Add(-time.Second)},
		{Name: "b", Claim: "b", Pool: "p", State: model.Registered},
		{Name: "c", Claim: "c", Pool: "p", State: model.Initialized, Initialized: noon, Deleting: true},
	}
	turns := begin(t, s, Options{})
	await(t, turns)
	s.wakesAt(t, 7*time.Second)
	s.Advance(7 * time.Second)
	if d := await(t, turns); !d.At.Equal(noon.Add(7 * time.Second)) {
		t.Errorf("decided at %v", d.At)
	}
	s.wakesAt(t, 7*time.Second+resync)
}

// A plan that sets RecheckAt is made anew at that time, even if nothing has changed.
func TestAPlanIsMadeAnewWhenItSays(t *testing.T) {
	s := newStage()
	s.pending = []model.Pod{{PodKey: model.PodKey{Namespace: "default", Name: "next"}}}
	until := noon.Add(4 * time.Second)
	turns := begin(t, s, Options{Provision: func(s *model.Snapshot, _ model.Policy) model.Plan {
		plan := model.Plan{Unplaced: []model.Unplaced{{
			Pod:    s.Pending[0].PodKey,
			Reason: model.Reason{Rule: model.RuleUnexplained},
		}}}
		if s.Now.Before(until) {
			plan.RecheckAt = until
		}
		return plan
	}})
	await(t, turns)
	s.wakesAt(t, 4*time.Second)
	s.Advance(4 * time.Second)
	if d := await(t, turns); !d.At.Equal(until) {
		t.Errorf("decided at %v", d.At)
	}
	s.wakesAt(t, 4*time.Second+resync)
}

func TestAPlanThatBreaksAPromiseIsSavedAndNotCarriedOut(t *testing.T) {
	s, dir := newStage(), t.TempDir()
	bad := model.Plan{Launches: []model.Launch{{ID: "bad"}}}
	turns := begin(t, s, Options{
		BadPlans:  dir,
		Provision: func(*model.Snapshot, model.Policy) model.Plan { return bad },
		Disrupt:   func(*model.Snapshot, model.Policy) model.Plan { panic("out of its wits") },
		Check: func(_ *model.Snapshot, _ model.Policy, p model.Plan) []check.Violation {
			if len(p.Launches) > 0 {
				return []check.Violation{{Promise: "topology spread", Unproven: true}, {Promise: "fits", Object: "the launch"}}
			}
			return nil
		},
	})
	d := await(t, turns)
	if len(s.applied) != 0 || !strings.Contains(strings.Join(d.Bad, " "), "out of its wits") {
		t.Errorf("applied %v, bad %v", s.applied, d.Bad)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("saved %v, %v", files, err)
	}
}

// Two sorts of pods are planned wrongly: the third gets its launch, whichever object shows what is wrong. A pod with a
// place keeps it, unless that is wrong, too.
func TestPodsThatArePlannedWronglyHoldUpNoOthers(t *testing.T) {
	static := []model.Pool{{Name: "static", Static: true}}
	for _, c := range []struct {
		object, full string // of the violations; the node on which no pod may be placed
		pools        []model.Pool
		pods         []model.Pod
		want         string
		bad          int
	}{
		{"launch of-bad", "n1", nil, wrongly("bad", "bad", "worse@n1", "good"), "of-good", 2},
		{"pod default/bad-1", "n1", nil, wrongly("bad", "bad", "worse@n1", "good"), "of-good", 2},
		{"launch of-bad", "", nil, wrongly("bad", "bad@n2", "good"), "of-good n2", 1},
		{"launch of-bad", "n2", nil, wrongly("bad", "bad@n2", "good"), "of-good", 2},
		{"launch of-bad", "", nil, wrongly("bad"), "", 1},
		{"launch of-bad", "", static, wrongly("bad"), "static", 1},
		{"pool general", "", nil, wrongly("bad", "good"), "", 1},
	} {
		s, dir := newStage(), t.TempDir()
		s.pending, s.pools = c.pods, c.pools
		turns := begin(t, s, Options{BadPlans: dir, Provision: launchesForEach, Check: refusing(c.object, c.full)})
		d := await(t, turns)
		var got []string
		for _, p := range s.applied {
			for _, l := range p.Launches {
				got = append(got, l.ID)
			}
			for _, x := range p.Placements {
				got = append(got, x.Node)
			}
		}
		if strings.Join(got, " ") != c.want || len(d.Bad) != c.bad || len(d.Snapshot.Pending) != len(c.pods) {
			t.Errorf("%s, %v: carried out %v, want %q; bad %v", c.object, c.pods, got, c.want, d.Bad)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != c.bad {
			t.Errorf("%s: saved %v, %v", c.object, files, err)
		}
	}
}

// wrongly returns pods of the shapes with these names, which have places on the nodes after "@".
func wrongly(names ...string) (out []model.Pod) {
	var shapes []string
	for i, name := range names {
		shape, node, _ := strings.Cut(name, "@")
		if !slices.Contains(shapes, shape) {
			shapes = append(shapes, shape)
		}
		key := model.PodKey{Namespace: "default", Name: fmt.Sprintf("%s-%d", shape, i)}
		out = append(out, model.Pod{PodKey: key, Shape: slices.Index(shapes, shape), Nominated: node})
	}
	return out
}

// launchesForEach launches a node for each shape of pods without a place, and one for each static pool.
func launchesForEach(s *model.Snapshot, _ model.Policy) (out model.Plan) {
	for _, p := range s.Pools {
		out.Launches = append(out.Launches, model.Launch{ID: p.Name})
	}
	for _, p := range s.Pending {
		name, _, _ := strings.Cut(p.Name, "-")
		i := slices.IndexFunc(out.Launches, func(l model.Launch) bool { return l.ID == "of-"+name })
		switch {
		case p.Nominated != "":
			out.Placements = append(out.Placements, model.Placement{Pod: p.PodKey, Node: p.Nominated})
		case i >= 0:
			out.Launches[i].Pods = append(out.Launches[i].Pods, p.PodKey)
		default:
			out.Launches = append(out.Launches, model.Launch{ID: "of-" + name, Pods: []model.PodKey{p.PodKey}})
		}
	}
	return out
}

// refusing refuses the launch of-bad, for which it names an object, and without it pods on the full node. Of all other
// launches it says that they are unproven.
func refusing(object, full string) func(*model.Snapshot, model.Policy, model.Plan) []check.Violation {
	return func(_ *model.Snapshot, _ model.Policy, p model.Plan) (out []check.Violation) {
		for _, l := range p.Launches {
			if l.ID == "of-bad" {
				out = append(out, check.Violation{Promise: "fits", Object: object})
			} else {
				out = append(out, check.Violation{Promise: "topology spread", Object: "launch " + l.ID, Unproven: true})
			}
		}
		refused := slices.ContainsFunc(out, func(v check.Violation) bool { return !v.Unproven })
		if !refused && slices.ContainsFunc(p.Placements, func(x model.Placement) bool { return x.Node == full }) {
			out = append(out, check.Violation{Promise: "fits", Object: "node " + full})
		}
		return out
	}
}

func TestADisruptionThatBreaksAPromiseIsNotCarriedOut(t *testing.T) {
	s := newStage()
	turns := begin(t, s, Options{
		Disrupt: func(*model.Snapshot, model.Policy) model.Plan {
			return model.Plan{Removals: []model.Removal{{Node: "n1"}}, Commands: []model.Command{{ID: "x"}}}
		},
		Check: func(_ *model.Snapshot, _ model.Policy, p model.Plan) []check.Violation {
			if len(p.Removals) > 0 {
				return []check.Violation{{Promise: "budget", Object: "pool general"}}
			}
			return nil
		},
	})
	d := await(t, turns)
	for _, p := range s.applied {
		if len(p.Removals)+len(p.Commands) > 0 {
			t.Errorf("applied %+v", p)
		}
	}
	if len(d.Bad) != 1 || len(d.Plan.Removals)+len(d.Plan.Commands) > 0 {
		t.Errorf("bad %v, and the decision is said to be %+v", d.Bad, d.Plan)
	}
}

// What violations are about stays, and only that: a node, a pool, a command, and pods and launches of a command.
func TestOfABadDisruptionTheRestIsCarriedOut(t *testing.T) {
	pod := model.PodKey{Namespace: "default", Name: "moved", UID: "1"}
	plan := model.Plan{
		Removals: []model.Removal{{Node: "n1", Pool: "a"}, {Node: "n2", Pool: "b"}, {Node: "n3", Pool: "c"}},
		Commands: []model.Command{
			{ID: "places", Removals: []model.Removal{{Node: "n4"}}, Placements: []model.Placement{{Pod: pod, Node: "n8"}}},
			{
				ID: "launches", Removals: []model.Removal{{Node: "n5"}},
				Launches: []model.Launch{{ID: "l", Pods: []model.PodKey{pod}}},
			},
			{ID: "other", Removals: []model.Removal{{Node: "n6"}}},
		},
	}
	for object, want := range map[string]string{
		"node n1": "n2 n3 places launches other", "pool b": "n1 n3 places launches other",
		"command other": "n1 n2 n3 places launches",
		"node n6":       "n1 n2 n3 places launches", "node n8": "n1 n2 n3 launches other",
		"launch l": "n1 n2 n3 places other", "pod default/moved": "n1 n2 n3 other", "plan": "",
	} {
		s := newStage()
		turns := begin(t, s, Options{
			Disrupt: func(*model.Snapshot, model.Policy) model.Plan { return plan },
			Check: func(_ *model.Snapshot, _ model.Policy, p model.Plan) []check.Violation {
				if names := carriedOut([]model.Plan{p}); names == carriedOut([]model.Plan{plan}) {
					return []check.Violation{{Promise: "fits", Object: object}}
				}
				return nil
			},
		})
		d := await(t, turns)
		if got := carriedOut(s.applied); got != want || len(d.Bad) == 0 {
			t.Errorf("%s: carried out %q, want %q; bad %v", object, got, want, d.Bad)
		}
	}
}

// carriedOut returns the nodes of removals and the IDs of commands.
func carriedOut(plans []model.Plan) string {
	var out []string
	for _, p := range plans {
		for _, r := range p.Removals {
			out = append(out, r.Node)
		}
		for _, c := range p.Commands {
			out = append(out, c.ID)
		}
	}
	return strings.Join(out, " ")
}

func TestAPlanThatMayBeRightIsCarriedOutAndMentionedOnce(t *testing.T) {
	s, dir, log := newStage(), t.TempDir(), &bytes.Buffer{}
	turns := begin(t, s, Options{
		BadPlans: dir, Log: slog.New(slog.NewTextHandler(log, nil)),
		Provision: func(*model.Snapshot, model.Policy) model.Plan {
			return model.Plan{Launches: []model.Launch{{ID: "l"}}}
		},
		Check: func(_ *model.Snapshot, _ model.Policy, p model.Plan) []check.Violation {
			if len(p.Launches) > 0 {
				return []check.Violation{{Promise: "topology spread", Object: "pod web", Unproven: true}}
			}
			return nil
		},
	})
	d := await(t, turns)
	if len(s.applied) != 1 || len(d.Bad) != 0 || len(d.Unproven) != 1 {
		t.Errorf("applied %v, bad %v, unproven %v", s.applied, d.Bad, d.Unproven)
	}
	s.wakesAt(t, resync)
	s.Advance(resync)
	await(t, turns)
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("saved %v, %v", files, err)
	}
	if n := strings.Count(log.String(), "was carried out"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log)
	}
}

func TestPodsComeFirstThenMachines(t *testing.T) {
	s := newStage()
	turns := begin(t, s, Options{
		Provision: func(*model.Snapshot, model.Policy) model.Plan {
			return model.Plan{Launches: []model.Launch{{ID: "l"}}}
		},
		Disrupt: func(*model.Snapshot, model.Policy) model.Plan {
			return model.Plan{Removals: []model.Removal{{Node: "n"}}}
		},
	})
	d := await(t, turns)
	if len(s.applied) != 2 || len(s.applied[0].Launches) != 1 || len(s.applied[1].Removals) != 1 ||
		len(d.Plan.Removals) != 1 {
		t.Errorf("applied %+v", s.applied)
	}
}

func TestNothingIsDecidedBeforeLeading(t *testing.T) {
	s, leading := newStage(), make(chan struct{})
	turns := begin(t, s, Options{Leading: leading})
	if len(turns) != 0 {
		t.Fatal("decided without leading")
	}
	close(leading)
	await(t, turns)
}

// Progress is called when a cycle begins and when it ends, even if nothing changes.
func TestEachCycleTellsThatItGoesOn(t *testing.T) {
	s, told := newStage(), make(chan string, 100)
	turns := begin(t, s, Options{
		Progress: func() { told <- "goes on" },
		Provision: func(*model.Snapshot, model.Policy) model.Plan {
			told <- "decides"
			return model.Plan{}
		},
	})
	await(t, turns)
	s.wakesAt(t, resync)
	s.Advance(resync)
	await(t, turns)
	s.wakesAt(t, 2*resync)
	for i, want := range []string{"goes on", "decides", "goes on", "goes on", "decides", "goes on"} {
		if got := <-told; got != want {
			t.Fatalf("%d: it %s, want that it %s", i, got, want)
		}
	}
}

// A former leader's newest claims are read before the first plan is made, however often reading them fails.
func TestNothingIsDecidedBeforeAllClaimsAreKnown(t *testing.T) {
	s := newStage()
	s.unknown = errors.New("no API server")
	turns := begin(t, s, Options{})
	late := time.After(time.Minute)
	for at, ok := s.Next(); !ok || !at.Equal(noon.Add(retry)); at, ok = s.Next() {
		select {
		case <-turns:
			t.Fatal("decided without knowing all claims")
		case <-late:
			t.Fatalf("sleeps until %v (%v), want noon + %v", at, ok, retry)
		case <-time.After(time.Millisecond):
		}
	}
	s.unknown = nil
	s.Advance(retry)
	if d := await(t, turns); !d.At.Equal(noon.Add(retry)) {
		t.Errorf("decided at %v", d.At)
	}
}
