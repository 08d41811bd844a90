package record_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func pod(name string) model.PodKey {
	return model.PodKey{Namespace: "shop", Name: name, UID: "uid-" + name}
}

func launch(id string, pods ...string) model.Launch {
	l := model.Launch{ID: id, Pool: "general", Types: []string{"m5.large"}}
	l.Chosen = model.Candidate{
		OfferingKey: model.OfferingKey{Type: "m5.large", Zone: "a", CapacityType: "on-demand"},
		Price:       96_000,
	}
	l.RunnerUp = model.Candidate{OfferingKey: model.OfferingKey{
		Type: "m5.xlarge", Zone: "a",
		CapacityType: "on-demand",
	}, Price: 192_000}
	for _, p := range pods {
		l.Pods = append(l.Pods, pod(p))
	}
	return l
}

func node(name, claim string, price model.Price, pods ...string) model.Node {
	n := model.Node{
		Name: name, Claim: claim, Pool: "general", Type: "m5.xlarge", Zone: "a", CapacityType: "on-demand",
		Price: price, State: model.Initialized,
	}
	for _, p := range pods {
		n.Pods = append(n.Pods, model.BoundPod{Pod: model.Pod{PodKey: pod(p)}})
	}
	return n
}

func seen(claim string, ready time.Time) record.ClaimState {
	return record.ClaimState{Claim: claim, Node: "node-" + claim, Ready: ready, Describe: func() record.RemovedNode {
		return record.RemovedNode{
			Claim: claim, Pool: "general",
			Offer: record.Offer{Type: "m5.large", Zone: "a", CapacityType: "on-demand", DollarsPerHour: 0.096},
		}
	}}
}

// story formats a tracker's entries as lines.
func story(entries []record.Entry) string {
	var out []string
	for _, r := range record.Fold(entries) {
		out = append(out, strings.TrimSpace(string(r.Kind)+" "+r.Method)+": "+r.Result())
	}
	return strings.Join(out, "\n")
}

// A node is launched, replaced and gone: three decisions and their outcomes, in whatever order the two sources report
// them.
func TestALifeIsToldOnceWhateverComesFirst(t *testing.T) {
	s := &model.Snapshot{Now: noon}
	launched := record.Cycle{
		Snapshot: s, Plan: model.Plan{Launches: []model.Launch{launch("l1", "web-1", "web-2")}},
		Claims: map[string]string{"l1": "c1"},
	}
	later := &model.Snapshot{Now: at(time.Hour), Nodes: []model.Node{node("node-c1", "c1", 192_000, "web-1")}}
	command := model.Command{
		ID: "cmd", Method: model.Underutilized, Saves: 96_000, Launches: []model.Launch{launch("l2")},
		Removals: []model.Removal{{Node: "node-c1", Claim: "c1", Pool: "general", Method: model.Underutilized}},
	}
	replaced := record.Cycle{
		Snapshot: later, Plan: model.Plan{Commands: []model.Command{command}},
		Claims: map[string]string{"l2": "c2"}, Begun: []string{"cmd"},
	}
	going := seen("c1", at(40*time.Second))
	going.Leaving, going.Method, going.Why = true, "Underutilized", "its pods cost less elsewhere"

	steps := map[string]func(*record.Tracker) []record.Entry{
		"launch": func(k *record.Tracker) []record.Entry { return k.Cycle(launched, at(time.Second)) },
		"ready": func(k *record.Tracker) []record.Entry {
			return k.Observe(seen("c1", at(44*time.Second)), at(44*time.Second))
		},
		"replace": func(k *record.Tracker) []record.Entry { return k.Cycle(replaced, at(time.Hour)) },
		"ready2": func(k *record.Tracker) []record.Entry {
			return k.Observe(seen("c2", at(61*time.Minute)), at(61*time.Minute))
		},
		"finished": func(k *record.Tracker) []record.Entry {
			return k.Cycle(record.Cycle{Snapshot: later, Finished: []string{"cmd"}}, at(62*time.Minute))
		},
		"going": func(k *record.Tracker) []record.Entry { return k.Observe(going, at(62*time.Minute)) },
		"due": func(k *record.Tracker) []record.Entry {
			out, _ := k.Due(at(63 * time.Minute))
			return out
		},
		"gone": func(k *record.Tracker) []record.Entry { return k.Deleted("c1", "", at(64*time.Minute)) },
	}
	const want = "Launch: ready in 44s as node-c1\nReplace Underutilized: ready in 1m0s as node-c2; terminated after 4m0s"
	for _, order := range []string{
		"launch ready replace ready2 finished going due gone",
		"ready launch replace ready2 finished going due gone",
		"launch ready ready2 replace going finished due gone",
		"launch launch ready ready replace replace ready2 finished finished going due gone gone due",
	} {
		k := record.NewTracker()
		var all []record.Entry
		var after []int // number of entries after each step
		for _, step := range strings.Fields(order) {
			all = append(all, steps[step](k)...)
			after = append(after, len(all))
		}
		if got := story(all); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", order, got, want)
		}
		// After any step another process continues from the written entries, and sees the NodeClaims as they are by then.
		for done, n := range after {
			k, told := record.NewTracker(), slices.Clone(all[:n])
			k.Replay(told)
			for i, step := range strings.Fields(order) {
				if i > done || strings.HasPrefix(step, "ready") || step == "going" && !strings.Contains(story(told), "terminated") {
					told = append(told, steps[step](k)...)
				}
			}
			if got := story(told); got != want {
				t.Errorf("%s, by another process after step %d:\n%s\nwant\n%s", order, done+1, got, want)
			}
		}
	}
}

// A NodeClaim is observed with each of its changes, but its readiness is recorded only once.
func TestReadyIsWrittenOnce(t *testing.T) {
	k := record.NewTracker()
	k.Cycle(record.Cycle{
		Snapshot: &model.Snapshot{Now: noon},
		Plan:     model.Plan{Launches: []model.Launch{launch("l1", "web-1")}}, Claims: map[string]string{"l1": "c1"},
	}, noon)
	if first := k.Observe(seen("c1", at(44*time.Second)), at(44*time.Second)); len(first) != 1 {
		t.Fatalf("entries %+v", first)
	}
	if again := k.Observe(seen("c1", at(44*time.Second)), at(time.Minute)); len(again) != 0 {
		t.Errorf("written again: %+v", again)
	}
}

// A removal without a decision of this controller is recorded as another's, with the reason given by whatever deleted
// it, if any.
func TestAMachineThatOthersTakeIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		deleting [2]string
		want     string
	}{
		"by the cloud": {want: "Depart Interrupted: terminated after 30s"},
		"by our own caretaker": {
			deleting: [2]string{"Unhealthy", "its Node was not healthy"},
			want:     "Depart Unhealthy: terminated after 30s",
		},
	} {
		k := record.NewTracker()
		if c.deleting[0] != "" {
			k.Deleting("c1", c.deleting[0], c.deleting[1])
		}
		s := seen("c1", noon)
		s.Leaving, s.Method, s.Why = true, "Interrupted", "the cloud takes it away"
		all := k.Observe(s, noon)
		if early, more := k.Due(at(time.Second)); len(early) != 0 || !more {
			t.Errorf("%s: after a second: %v, more %t; a turn may still tell of it", name, early, more)
		}
		due, _ := k.Due(at(3 * time.Second))
		all = append(all, due...)
		all = append(all, k.Deleted("c1", "", at(30*time.Second))...)
		if got := story(all); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An unschedulable pod is recorded when it is new or its reason changes, not with every plan or every change of
// usage.
func TestARefusalIsToldWhenItChanges(t *testing.T) {
	k := record.NewTracker()
	turn := func(after time.Duration, rule model.Rule, best string, pods ...string) int {
		s := &model.Snapshot{Now: at(after)}
		var p model.Plan
		for _, name := range pods {
			s.Pending = append(s.Pending, model.Pod{PodKey: pod(name), Created: noon})
			v := model.PoolVerdict{Pool: "general", Rule: rule, Object: "cpu", Detail: "4", Best: best}
			p.Unplaced = append(p.Unplaced,
				model.Unplaced{Pod: pod(name), Reason: model.Reason{Rule: rule, Object: "cpu", Pools: []model.PoolVerdict{v}}})
		}
		entries := k.Cycle(record.Cycle{Snapshot: s, Plan: p}, s.Now)
		for _, e := range entries {
			again := "" // Again is set only for pods out of capacity
			if rule == model.RuleCapacity {
				again = "4"
			}
			if e.Decision.Kind != record.Unschedulable || len(e.Decision.Pods) == 0 || e.Decision.Rule != string(rule) ||
				e.Decision.Again != again {
				t.Errorf("after %s: %+v", after, e.Decision)
			}
		}
		return len(entries)
	}
	for i, step := range []struct {
		rule model.Rule
		best string
		pods string
		want int
	}{
		{model.RuleLimit, "1", "a b", 1},
		{model.RuleLimit, "3", "a b", 0},
		{model.RuleLimit, "3", "a b c", 1},
		{model.RuleCapacity, "", "a b c", 1},
		{model.RuleSteps, "", "a b c", 0},
		{model.RuleCapacity, "", "b", 1},
	} {
		if got := turn(time.Duration(i)*time.Minute, step.rule, step.best, strings.Fields(step.pods)...); got != step.want {
			t.Errorf("step %d, %s: %d refusals are told, want %d", i, step.rule, got, step.want)
		}
	}
}

// A command records where it plans its nodes' pods: on existing nodes, and on nodes that it launches.
func TestACommandSaysWhereItsPodsMove(t *testing.T) {
	move := func(to string, pods int) record.Move { return record.Move{To: to, Pods: pods} }
	s := &model.Snapshot{Now: noon, Nodes: []model.Node{
		node("n1", "c1", 192_000, "a", "b", "c", "daemon"), node("n2", "c2", 192_000, "d", "lost"),
	}}
	c := model.Command{
		ID: "cmd", Method: model.Underutilized, Launches: []model.Launch{launch("l1", "a", "d"), launch("l2", "lost")},
		Placements: []model.Placement{{Pod: pod("b"), Node: "n3"}, {Pod: pod("c"), Node: "n3"}},
		Removals:   []model.Removal{{Node: "n1", Claim: "c1"}, {Node: "n2", Claim: "c2"}, {Node: "n9", Claim: "c9"}},
	}
	told := func(c model.Command) (out []string, moves int) {
		entries := record.NewTracker().Cycle(record.Cycle{
			Snapshot: s, Plan: model.Plan{Commands: []model.Command{c}}, Claims: map[string]string{"l1": "new"},
			Begun: []string{"cmd"},
		}, noon)
		for _, m := range entries[0].Decision.Removed {
			out, moves = append(out, fmt.Sprint(m.Claim, m.Moves)), moves+len(m.Moves)
		}
		return out, moves
	}
	want := []string{
		fmt.Sprint("c1", []record.Move{move("n3", 2), move("new", 1)}), fmt.Sprint("c2", []record.Move{move("new", 1)}),
		"c9[]",
	}
	if got, _ := told(c); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 300 {
		name := fmt.Sprint("more-", i)
		s.Nodes[0].Pods = append(s.Nodes[0].Pods, node("", "", 0, name).Pods...)
		c.Placements = append(c.Placements, model.Placement{Pod: pod(name), Node: name})
	}
	if _, n := told(c); n != 200 {
		t.Errorf("%d moves are kept of 303", n)
	}
}

// Names may contain anything; what is kept is bounded and decoded unchanged.
func TestWhatIsKeptIsBoundedAndComesBack(t *testing.T) {
	var pods []string
	for i := range 2000 {
		pods = append(pods, fmt.Sprintf("web\x1b[31m-\u202e%d", i))
	}
	k := record.NewTracker()
	all := k.Cycle(record.Cycle{
		Snapshot: &model.Snapshot{Now: noon}, Plan: model.Plan{Launches: []model.Launch{launch("l", pods...)}},
		Claims: map[string]string{"l": "c"},
		Bad:    []string{strings.Repeat("é", 5000)},
	}, noon)
	data, err := record.Encode(all)
	if err != nil {
		t.Fatal(err)
	}
	back, err := record.Decode(data)
	if err != nil || len(back) != 2 {
		t.Fatalf("%d entries come back, %v", len(back), err)
	}
	d := back[0].Decision
	if len(d.Pods)+d.PodsMore != 2000 || len(d.Pods) > 512 || d.Pods[7] != "shop/"+pods[7] {
		t.Errorf("%d pods and %d more; the eighth is %q", len(d.Pods), d.PodsMore, d.Pods[7])
	}
	if w := back[1].Decision.Why; len(w) > 2100 || strings.ContainsRune(w, '�') {
		t.Errorf("a sentence of %d bytes, cut within a letter: %t", len(w), strings.ContainsRune(w, '�'))
	}
	for _, damaged := range [][]byte{
		nil, []byte("no gzip"), data[:len(data)/2],
		append(slices.Clone(data[:len(data)-9]), "123456789"...),
	} {
		if _, err := record.Decode(damaged); err == nil {
			t.Errorf("%d damaged bytes are read without a word", len(damaged))
		}
	}
}

func about(x, y float64) bool { return math.Abs(x-y) < 1e-9 }

// A day in a pool, added up by hand.
func TestSavingsAreAddedUpAgainstTheCounterfactual(t *testing.T) {
	machine := func(claim string, price float64) record.RemovedNode {
		return record.RemovedNode{Claim: claim, Pool: "general", Offer: record.Offer{Type: "m5", DollarsPerHour: price}}
	}
	bought := func(claim string, price float64) record.LaunchedNode {
		return record.LaunchedNode{Claim: claim, Pool: "general", Chosen: record.Offer{Type: "m5", DollarsPerHour: price}}
	}
	gone := func(of, claim string, after time.Duration) record.Outcome {
		return record.Outcome{Of: of, Kind: record.Terminated, Claim: claim, Time: at(after)}
	}
	empty := record.Record{
		Decision: record.Decision{
			ID: "empty", Time: noon, Kind: record.Remove, Method: "Empty",
			Removed: []record.RemovedNode{machine("a", 1)},
		},
		Outcomes: []record.Outcome{gone("empty", "a", 0)},
	}
	replace := record.Record{
		Decision: record.Decision{
			ID: "replace", Time: noon, Kind: record.Replace,
			Method:  "Underutilized",
			Removed: []record.RemovedNode{machine("b", 3)}, Launched: []record.LaunchedNode{bought("c", 1)},
		},
		Outcomes: []record.Outcome{gone("replace", "b", time.Hour)},
	}
	undone := record.Record{
		Decision: record.Decision{
			ID: "undone", Time: noon, Kind: record.Replace,
			Method:  "Underutilized",
			Removed: []record.RemovedNode{machine("d", 3)}, Launched: []record.LaunchedNode{bought("e", 2)},
		},
		Outcomes: []record.Outcome{{Of: "undone", Kind: record.Kept, Time: at(30 * time.Minute)}},
	}
	undoneThenGone := undone
	undoneThenGone.Outcomes = append(slices.Clone(undone.Outcomes), gone("undone", "d", time.Hour))
	launched := record.Record{Decision: record.Decision{
		ID: "launched", Time: at(2 * time.Hour), Kind: record.Launch,
		Launched: []record.LaunchedNode{bought("f", 0.75)},
	}}
	asDear := launched
	asDear.Launched = []record.LaunchedNode{bought("f", 1)}
	decidedLater := empty
	decidedLater.Time = at(2*time.Hour + time.Minute)
	decidedLater.Outcomes = []record.Outcome{gone("empty", "a", 3*time.Hour)}
	expired := empty
	expired.Removed = []record.RemovedNode{machine("a", 1)}
	ends := at(3 * time.Hour)
	expired.Removed[0].Expires = &ends
	unknown := empty
	unknown.Removed = []record.RemovedNode{machine("a", 0)}
	drift := replace
	drift.Method = "Drifted"
	cheaper := replace
	cheaper.Outcomes = append(slices.Clone(replace.Outcomes),
		record.Outcome{
			Of: "replace", Kind: record.Ready, Claim: "c", Time: at(time.Minute),
			Offer: &record.Offer{DollarsPerHour: 0.5},
		})

	for name, c := range map[string]struct {
		records       []record.Record
		now           time.Duration
		dollars, rate float64
		state         string
	}{
		"an empty machine, four hours":              {[]record.Record{empty}, 4 * time.Hour, 4, 1, record.Counting},
		"an empty machine, two days: a day counts":  {[]record.Record{empty}, 48 * time.Hour, 24, 0, record.Over},
		"it would have expired after three":         {[]record.Record{expired}, 4 * time.Hour, 3, 0, record.Over},
		"both run for an hour, then one: 3·3 − 4·1": {[]record.Record{replace}, 4 * time.Hour, 5, 2, record.Counting},
		"the cloud gave a cheaper one: 3·3 − 4·0.5": {[]record.Record{cheaper}, 4 * time.Hour, 7, 2.5, record.Counting},
		"undone: the replacement for half an hour":  {[]record.Record{undone}, 4 * time.Hour, -1, 0, record.Reversed},
		"undone, and gone later by somebody's hand": {
			[]record.Record{undoneThenGone},
			4 * time.Hour, -1, 0,
			record.Reversed,
		},
		"a machine came after two hours: 2·1 + 2·0.25": {
			[]record.Record{empty, launched},
			4 * time.Hour, 2.5, 0.25,
			record.Counting,
		},
		"two came: nothing more is saved": {
			[]record.Record{empty, launched, launched},
			4 * time.Hour, 2, 0,
			record.TakenOff,
		},
		"a machine came while the empty one was draining: 1·1 − 1·0.75": {
			[]record.Record{
				launched,
				{Decision: empty.Decision, Outcomes: []record.Outcome{gone("empty", "a", 3*time.Hour)}},
			},
			4 * time.Hour, 0.25, 0.25,
			record.Counting,
		},
		"a machine as dear as the draining one came": {
			[]record.Record{
				asDear,
				{Decision: empty.Decision, Outcomes: []record.Outcome{gone("empty", "a", 3*time.Hour)}},
			},
			4 * time.Hour, 0, 0,
			record.TakenOff,
		},
		"a machine that came before the decision is not taken off": {
			[]record.Record{launched, decidedLater},
			4 * time.Hour, 1, 1,
			record.Counting,
		},
		"not gone yet: only what the replacement costs": {
			[]record.Record{{Decision: replace.Decision}},
			30 * time.Minute,
			-0.5, -1, record.Waiting,
		},
	} {
		l := record.Savings(c.records, at(c.now), record.DefaultHorizon)
		if !about(l.Dollars, c.dollars) || !about(l.DollarsPerHour, c.rate) || len(l.Savings) != 1 ||
			l.Savings[0].State != c.state {
			t.Errorf("%s: $%.4f, $%.4f/h, %+v; want $%.4f, $%.4f/h, %s", name, l.Dollars, l.DollarsPerHour, l.Savings,
				c.dollars, c.rate, c.state)
		}
		sum := 0.0
		for _, d := range record.SavedByDay(c.records, at(c.now), record.DefaultHorizon, 9) {
			sum += d.Dollars
		}
		if !about(sum, c.dollars) {
			t.Errorf("%s: the days come to $%.4f, want $%.4f", name, sum, c.dollars)
		}
	}
	days := fmt.Sprint(record.SavedByDay([]record.Record{empty}, at(36*time.Hour), record.DefaultHorizon, 2))
	if days != "[{2026-11-23 12} {2026-11-22 12}]" || len(record.SavedByDay([]record.Record{empty}, at(36*time.Hour),
		record.DefaultHorizon, 1)) != 1 {
		t.Errorf("an empty machine from noon to noon, by day: %s", days)
	}
	if l := record.Savings([]record.Record{unknown, drift}, at(time.Hour), record.DefaultHorizon); l.Dollars != 0 ||
		l.Unpriced != 1 || len(l.Savings) != 0 {
		t.Errorf("a machine without a price and a drifted one: %+v", l)
	}
}

// The size of a thousand decisions in the log, to which the log's capacity refers: launches for ten pods each, and
// their outcomes.
func TestAThousandDecisionsTakeLittleRoom(t *testing.T) {
	k, noise := record.NewTracker(), rand.New(rand.NewPCG(1, 2))
	var all []record.Entry
	for i := range 1000 {
		id := fmt.Sprintf("%08x", i*2654435761)
		var pods []string
		for range 10 {
			pods = append(pods, fmt.Sprintf("web-%08x-%05x", i/20*40503, noise.IntN(1<<20)))
		}
		now := at(time.Duration(i) * 7 * time.Second)
		claim := "general-purpose-" + id
		all = append(all, k.Cycle(record.Cycle{
			Snapshot: &model.Snapshot{Now: now}, Plan: model.Plan{Launches: []model.Launch{launch(id, pods...)}},
			Claims: map[string]string{id: claim},
		}, now)...)
		all = append(all, k.Observe(seen(claim, now.Add(44*time.Second)), now)...)
		all = append(all, k.Deleted(claim, "", now.Add(time.Hour))...)
	}
	data, err := record.Encode(all)
	if err != nil || len(all) != 3000 {
		t.Fatal(len(all), err)
	}
	each := len(data) / len(all)
	t.Logf("%d entries take %d bytes, %d each: 4 MiB hold %d", len(all), len(data), each, 4<<20/each)
	if each > 100 {
		t.Errorf("an entry takes %d bytes, far more than ADR 20 says", each)
	}
}

// A deleted pod and its successor of the same name are different: a decision about one is not about the other.
func TestPodsOfOneNameAreNotMixed(t *testing.T) {
	first, second := pod("web-0"), pod("web-0")
	first.UID, second.UID = "11111111-aaaa", "22222222-bbbb"
	l := launch("l1")
	l.Pods = []model.PodKey{first}
	n := node("n1", "c1", 192_000)
	n.Pods = []model.BoundPod{{Pod: model.Pod{PodKey: second}}}
	s := &model.Snapshot{Now: noon, Nodes: []model.Node{n}}
	records := record.Fold(record.NewTracker().Cycle(record.Cycle{
		Snapshot: s, Claims: map[string]string{"l1": "c2"}, Removed: []string{"c1"},
		Plan: model.Plan{
			Launches: []model.Launch{l},
			Removals: []model.Removal{{Node: "n1", Claim: "c1", Pool: "general", Method: model.Drifted}},
		},
	}, noon))
	if len(records) != 2 {
		t.Fatalf("%+v", records)
	}
	for _, r := range records {
		isFirst := r.Kind == record.Launch
		if got := r.AboutPod("shop/web-0", first.UID, noon); got != isFirst {
			t.Errorf("%s is about the first pod: %v", r.Kind, got)
		}
		if got := r.AboutPod("shop/web-0", second.UID, noon); got == isFirst {
			t.Errorf("%s is about the second pod: %v", r.Kind, got)
		}
		if r.AboutPod("shop/web-1", first.UID, noon) {
			t.Errorf("%s is about a pod of another name", r.Kind)
		}
	}
	// of a version that recorded no UIDs
	old := record.Record{Decision: record.Decision{Time: noon, Pods: []string{"shop/web-0"}}}
	if !old.AboutPod("shop/web-0", second.UID, noon.Add(500*time.Millisecond)) ||
		old.AboutPod("shop/web-0", second.UID, noon.Add(2*time.Second)) {
		t.Error("a record without UIDs counts by its time")
	}
}

// A log may contain an entry twice, since a process that dies between a write and its response writes again. It
// counts once.
func TestAnEntryThatWasWrittenTwiceCountsOnce(t *testing.T) {
	decision := record.Entry{Decision: &record.Decision{
		ID: "d", Time: noon, Kind: record.Remove, Method: "Empty",
		Removed: []record.RemovedNode{
			{Claim: "a", Offer: record.Offer{Type: "m5.large", DollarsPerHour: 1}},
			{Claim: "b", Offer: record.Offer{Type: "m5.large", DollarsPerHour: 1}},
		},
	}}
	gone := func(claim string) record.Entry {
		return record.Entry{Outcome: &record.Outcome{Of: "d", Kind: record.Terminated, Claim: claim, Time: at(time.Minute)}}
	}
	records := record.Fold([]record.Entry{decision, gone("a"), decision, gone("a"), gone("b"), gone("a")})
	if len(records) != 1 || len(records[0].Outcomes) != 2 || records[0].Outcomes[0].Claim != "a" ||
		records[0].Outcomes[1].Claim != "b" {
		t.Errorf("%d decisions, outcomes %+v", len(records), records[0].Outcomes)
	}
	if again := record.Fold(append(record.Entries(records), record.Entries(records)...)); len(again) != 1 ||
		len(again[0].Outcomes) != 2 {
		t.Errorf("read twice: %+v", again)
	}
	if l := record.Savings(records, at(61*time.Minute), record.DefaultHorizon); l.Dollars != 2 {
		t.Errorf("two nodes of $1 an hour that went an hour ago saved $%v", l.Dollars)
	}
}
