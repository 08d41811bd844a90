package tui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unique"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/language"
	"github.com/nodeless/nodeless/view/viewtest"
)

var update = flag.Bool("update", false, "rewrite the frames of testdata")

// shop returns a small cluster in which a bit of everything happens.
func shop(t testing.TB) *view.Model {
	t.Helper()
	m, _ := viewtest.Cluster(6, 3)
	at := viewtest.Now

	coming := viewtest.Claim(20)
	coming.Name, coming.Node, coming.Created, coming.Launched = "general-x7k2p", "", at.Add(-12*time.Second),
		at.Add(-9*time.Second)
	coming.Registered, coming.Initialized = time.Time{}, time.Time{}
	m.SetClaim(coming)

	going := viewtest.Claim(1)
	going.Disruption = "Underutilized, after 1 replacement(s)"
	m.SetClaim(going)

	lost := viewtest.Node(2)
	lost.Ready, lost.ReadyChanged, lost.Cordoned = false, at.Add(-3*time.Minute), true
	m.SetNode(lost)

	drifted := viewtest.Claim(3)
	drifted.Drift = "drifted: NodePoolDrifted"
	m.SetClaim(drifted)

	m.SetNode(&view.Node{
		Name: "fargate-ip-10-0-7-9", Pod: "shop/search-0", Created: at.Add(-time.Hour), Ready: true,
		ReadyChanged: at.Add(-time.Hour), Allocatable: view.Amounts{500, viewtest.Gi},
		Labels: map[string]string{
			"eks.amazonaws.com/compute-type":   "fargate",
			"node.kubernetes.io/instance-type": "0.5vCPU-1GB", "topology.kubernetes.io/zone": "us-west-2a",
		},
	})
	m.SetNode(&view.Node{
		Name: "metal-1", Created: at.Add(-240 * time.Hour), Ready: true,
		ReadyChanged: at.Add(-240 * time.Hour), Allocatable: view.Amounts{64000, 256 * viewtest.Gi},
	})
	m.SetPod(&view.Pod{
		UID: "uid-of-dns-0", Namespace: "kube-system", Name: "dns-0", Node: "metal-1",
		Phase: view.Running, Created: at.Add(-time.Hour), Requests: view.Amounts{100, viewtest.Gi / 8},
	})

	m.SetPod(&view.Pod{
		UID: "uid-of-train-0", Namespace: "shop", Name: "train-0", Created: at.Add(-42 * time.Second),
		Requests: view.Amounts{4000, 200 * viewtest.Gi}, Verdict: "0/8 nodes are available: 8 Insufficient memory.",
	})
	m.SetPod(&view.Pod{
		UID: "uid-of-late-0", Namespace: "shop", Name: "late-0", Created: at.Add(-2 * time.Second),
		Requests: view.Amounts{500, viewtest.Gi},
	})
	m.Say(view.Object{Kind: "Pod", Namespace: "shop", Name: "train-0"},
		view.Said{
			Reason: "FailedScheduling", At: at,
			Message: "Failed to schedule pod, no instance type of pool general has memory 200Gi and arch amd64; the largest has 128Gi",
		})
	m.Say(view.Object{Kind: "Node", Name: viewtest.NodeName(0)},
		view.Said{Reason: "Unconsolidatable", At: at, Message: "no cheaper place for its pods"})

	tight := viewtest.Pool("batch")
	tight.Limits = []view.Limit{
		{Resource: "cpu", Used: "96", Most: "100", UsedShare: 0.96},
		{Resource: "memory", Used: "300Gi", Most: "1Ti", UsedShare: 0.29},
	}
	tight.Budgets = []string{"0 Drifted @daily for 8h0m0s", "20%"}
	m.SetPool(tight)
	broken := viewtest.Pool("gpu")
	broken.Ready, broken.Problem, broken.Limits = false,
		"NodeClassNotReady: no subnet matches spec.subnetSelectorTerms", nil
	m.SetPool(broken)
	m.SetPiece("piece-000", 1, decided(at))
	return m
}

// decided returns a log: node ip-10-0-0-1 was launched for two pods and is being removed, another one is gone, and
// one pod gets nothing.
func decided(at time.Time) []record.Entry {
	offer := func(of string, price float64) record.Offer {
		return record.Offer{Type: of, Zone: "us-west-2a", CapacityType: "spot", DollarsPerHour: price}
	}
	best := offer("c6a.xlarge", 0.0612)
	ago := func(d time.Duration) time.Time { return at.Add(-d) }
	claim := viewtest.Claim(1).Name
	return []record.Entry{
		{Decision: &record.Decision{
			ID: "a1", Time: ago(26 * time.Hour), Kind: record.Launch, Why: "c5.xlarge for 2 pods of general",
			Pods: []string{"shop/web-0", "shop/web-1"},
			Launched: []record.LaunchedNode{{
				Claim: claim, Pool: "general", Chosen: offer("c5.xlarge", 0.0603), RunnerUp: &best,
				Types: 41,
			}},
		}},
		{Outcome: &record.Outcome{
			Of: "a1", Kind: record.Ready, Time: ago(26*time.Hour - 44*time.Second), Claim: claim,
			Node: viewtest.NodeName(1), Seconds: 44,
		}},
		{Decision: &record.Decision{
			ID: "b2", Time: ago(2 * time.Hour), Kind: record.Remove, Method: "Empty", Why: "nobody needs ip-10-0-9-9",
			SavesPerHour: 0.17,
			Removed: []record.RemovedNode{{
				Offer: offer("m5.xlarge", 0.17), Node: "ip-10-0-9-9", Claim: "batch-z",
				Pool: "batch",
			}},
		}},
		{Outcome: &record.Outcome{
			Of: "b2", Kind: record.Terminated, Time: ago(2*time.Hour - 30*time.Second), Claim: "batch-z",
			Node: "ip-10-0-9-9", Seconds: 30,
		}},
		{Decision: &record.Decision{
			ID: "c3", Time: ago(42 * time.Second), Kind: record.Unschedulable, Rule: "Resources",
			Why: "no type has memory 200Gi", Pods: []string{"shop/train-0"},
		}},
		{Decision: &record.Decision{
			ID: "d4", Time: ago(20 * time.Second), Kind: record.Replace, Method: "Underutilized",
			Why: "the pods of ip-10-0-0-1 cost less on a smaller node", SavesPerHour: 0.03,
			Removed: []record.RemovedNode{{
				Offer: offer("c5.xlarge", 0.0603), Node: viewtest.NodeName(1), Claim: claim,
				Pool: "general", Pods: []string{"shop/web-0", "shop/web-1"},
			}},
			Launched: []record.LaunchedNode{{
				Claim: "general-y", Pool: "general", Chosen: offer("c6a.large", 0.0303),
				Types: 12,
			}},
		}},
	}
}

func app(t testing.TB, m *view.Model, w, h int, colours bool) *App {
	t.Helper()
	style, err := ParseStyle(DefaultStyle)
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{
		Model: m, Context: "demo", Sort: view.ParseSort("node"), Style: style, Prices: "list prices of a day",
		Now:    func() time.Time { return viewtest.Now },
		Labels: []string{"team"},
	})
	a.Update(tea.WindowSizeMsg{Width: w, Height: h})
	profile := colorprofile.ASCII
	if colours {
		profile = colorprofile.TrueColor
	}
	a.Update(tea.ColorProfileMsg{Profile: profile})
	return a
}

// press presses keys. Keys with names, such as "down", are pressed as such; others are typed letter by letter.
func press(a *App, keys ...string) (quit bool) {
	codes := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
		"left": tea.KeyLeft, "right": tea.KeyRight,
		"home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace,
	}
	for _, k := range keys {
		var messages []tea.KeyPressMsg
		if code, ok := codes[k]; ok {
			messages = append(messages, tea.KeyPressMsg{Code: code})
		} else if c, ok := strings.CutPrefix(k, "ctrl+"); ok {
			messages = append(messages, tea.KeyPressMsg{Code: rune(c[0]), Mod: tea.ModCtrl})
		} else {
			for _, r := range k {
				messages = append(messages, tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
		for _, m := range messages {
			if _, cmd := a.Update(m); cmd != nil {
				answer := cmd()
				if _, quit = answer.(tea.QuitMsg); !quit {
					a.Update(answer)
				}
			}
			a.Frame() // a key applies to what is shown
		}
	}
	return quit
}

// golden compares a frame with a file of testdata; escapes are written so that people can read them.
func golden(t *testing.T, name, frame string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := strings.ReplaceAll(frame, "\x1b", "␛") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is another; go test ./view/tui -update shows how\ngot\n%s\nwant\n%s", path, got, want)
	}
}

func TestFrames(t *testing.T) {
	for name, keys := range map[string][]string{
		"nodes": nil, "groups": {"g"}, "pools": {"2"}, "pending": {"3"}, "pods": {"end", "enter"},
		"detail": {"3", "enter"}, "help": {"?"}, "month": {"$", "s", "s"},
		"decisions": {"4"}, "decision": {"4", "enter"}, "savings": {"5"}, "saving": {"5", "enter"}, "costs": {"6"}, "cost": {"6", "enter"},
		"drilled": {"home", "down", "down", "down", "D"}, "node": {"home", "down", "down", "down", "w"},
	} {
		for _, w := range []int{80, 160} {
			for _, colours := range []bool{false, true} {
				if colours && name != "nodes" && name != "pools" {
					continue // the others have the same tones
				}
				a := app(t, shop(t), w, 24, colours)
				a.Frame()
				press(a, keys...)
				frame := a.Frame()
				suffix := map[bool]string{false: "", true: "-colour"}[colours]
				golden(t, fmt.Sprintf("%s-%d%s", name, w, suffix), frame)
				fits(t, frame, w, 24)
				if !colours && strings.Contains(frame, "\x1b") {
					t.Errorf("%s-%d: commands to the terminal without colours", name, w)
				}
			}
		}
	}
}

// A price that is not known is a word, and what costs nothing costs zero dollars.
func TestEveryPriceIsSaid(t *testing.T) {
	m := shop(t)
	m.SetPod(&view.Pod{ // on a node whose price is known
		UID: "uid-of-idle", Namespace: "idle", Name: "idle", Node: viewtest.NodeName(0), Phase: view.Running,
	})
	for key, want := range map[string]map[string]string{
		"1": {"fargate-ip-10-0-7-9": "unknown", "metal-1": "unknown", "general-x7k2p": "$0.1318"},
		"2": {"gpu": "$0.0000", "(no pool)": "unknown"},
		"6": {"kube-system": "unknown", "idle": "$0.0000"},
	} {
		a := app(t, m, 160, 24, false)
		press(a, key)
		lines := strings.Split(a.Frame(), "\n")
		before, _, _ := strings.Cut(lines[a.rowsAt-1], "$/H")
		end := width(before) + len("$/H")
		for _, line := range lines[a.rowsAt:] {
			if text := ansi.Cut(line, end-3, end); text == "  -" {
				t.Errorf("screen %s: a price is missing\n%s", key, line)
			}
		}
		for name, price := range want {
			i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimLeft(l, " >"), name+" ") })
			if i < 0 || strings.TrimSpace(ansi.Cut(lines[i], end-9, end)) != price {
				t.Errorf("screen %s: the price of %s is not %s\n%s", key, name, price, strings.Join(lines, "\n"))
			}
		}
	}
}

// A line has no room for all that viewers should know: one note follows the other.
func TestNotesTakeTurns(t *testing.T) {
	m := shop(t)
	notes := []string{"you may not list events", "you may not list nodeclaims", "you may not list nodepools", "you may not list pods"}
	for _, note := range notes {
		m.Note(note, note+": the tables lack what depends on them, and so do the sums")
	}
	a, now := app(t, m, 80, 24, false), viewtest.Now
	a.o.Now = func() time.Time { return now }
	said := ""
	for range 20 {
		said += a.Frame()
		now = now.Add(time.Second)
	}
	for _, note := range notes {
		if !strings.Contains(said, "of 4: "+note) {
			t.Errorf("within 20 s nothing says %q", note)
		}
	}
}

// In Korean the frames fit the same space; names, statuses and column titles stay as in kubectl and the API.
func TestFramesInKorean(t *testing.T) {
	for name, keys := range map[string][]string{
		"nodes": nil, "pending": {"3"}, "decisions": {"4"}, "savings": {"5"}, "help": {"?"},
		"node": {"home", "down", "down", "down", "w"},
	} {
		for _, w := range []int{80, 160} {
			a := app(t, shop(t), w, 24, false)
			a.o.Language = language.ForLocale(func(string) string { return "ko_KR.UTF-8" })
			a.Frame()
			press(a, keys...)
			frame := a.Frame()
			golden(t, fmt.Sprintf("%s-%d-korean", name, w), frame)
			fits(t, frame, w, 24)
		}
	}
}

// The tabs can be clicked where their names are, even if these are wide.
func TestTabsAreClickedInKorean(t *testing.T) {
	a := app(t, shop(t), 160, 24, false)
	a.o.Language = language.ForLocale(func(string) string { return "ko_KR.UTF-8" })
	line := strings.Split(a.Frame(), "\n")[a.tabsAt]
	before, _, found := strings.Cut(line, "대기")
	if !found {
		t.Fatalf("no tab of pending pods: %q", line)
	}
	a.Update(tea.MouseClickMsg{Button: tea.MouseLeft, X: width(before), Y: a.tabsAt})
	if a.screen != Pending {
		t.Errorf("a click on the pending pods shows screen %d", a.screen)
	}
}

var commands = regexp.MustCompile("\x1b\\[[0-9;]*m")

// fits checks that a frame is what its terminal has room for.
func fits(t *testing.T, frame string, w, h int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) > h {
		t.Errorf("%d lines for %d", len(lines), h)
	}
	for _, l := range lines {
		if n := width(commands.ReplaceAllString(l, "")); n > w {
			t.Errorf("%d columns for %d: %q", n, w, l)
		}
	}
}

func TestEveryTerminalGetsAFrame(t *testing.T) {
	for _, w := range []int{1, 7, 20, 40, 79, 81, 120, 300} {
		for _, h := range []int{1, 5, 9, 24, 80} {
			for _, screen := range []string{"1", "2", "3", "4", "5", "?", "g", "/x", "5w"} {
				a := app(t, shop(t), w, h, true)
				press(a, screen)
				fits(t, a.Frame(), w, h)
			}
		}
	}
}

func TestHostileTextDoesNothing(t *testing.T) {
	const evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\r\n\u009b31m"
	m := shop(t)
	m.SetNode(&view.Node{
		Name: "evil" + evil, Labels: map[string]string{"team": evil, "karpenter.sh/nodepool": evil},
		Created: viewtest.Now,
	})
	m.SetPool(&view.Pool{Name: "evil" + evil, Problem: evil, Budgets: []string{evil}})
	m.SetPod(&view.Pod{UID: "uid-of-p" + evil, Namespace: "evil", Name: "p" + evil, Verdict: evil, Created: viewtest.Now})
	m.SetPod(&view.Pod{
		UID: "uid-of-q" + evil, Namespace: "evil", Name: "q" + evil, Node: viewtest.NodeName(0), Phase: view.Running,
		Created: viewtest.Now, Requests: view.Amounts{100, viewtest.Gi},
		Workload: unique.Make(view.Object{Kind: "Job" + evil, Namespace: "evil" + evil, Name: "w" + evil}),
	})
	m.Note("x", evil)
	m.SetPiece("evil", 2, []record.Entry{{Decision: &record.Decision{
		ID: "e" + evil, Time: viewtest.Now, Kind: record.Kind(evil), Method: "Empty", Why: evil, Pods: []string{evil},
		SavesPerHour: 1,
		Removed:      []record.RemovedNode{{Offer: record.Offer{Type: evil, DollarsPerHour: 1}, Node: evil, Pool: evil}},
		Launched:     []record.LaunchedNode{{Claim: evil, Pool: evil, Chosen: record.Offer{Type: evil, DollarsPerHour: 1}}},
	}}})
	for _, keys := range [][]string{
		{"end"},
		{"2"},
		{"3"},
		{"3", "end", "enter"},
		{"end", "w"},
		{"g"},
		{"/", evil},
		{"/evil", "enter", "enter"},
		{"4"},
		{"4", "enter"},
		{"5"},
		{"5", "enter"},
		{"6", "g"},
		{"6", "g", "d"},
	} {
		a := app(t, m, 200, 40, true)
		a.o.Context = "ctx" + evil
		a.Frame()
		press(a, keys...)
		a.Update(tea.PasteMsg{Content: evil})
		frame := commands.ReplaceAllString(a.Frame(), "")
		for _, bad := range []string{"\x1b", "\x07", "\r", "\u202e", "\u009b"} {
			if strings.Contains(frame, bad) {
				t.Errorf("%q: the frame holds %q:\n%q", keys, bad, frame)
			}
		}
		if len(strings.Split(frame, "\n")) > 40 {
			t.Errorf("%q: a name broke a line", keys)
		}
	}
	for _, output := range []string{"", "wide", "name", "json"} {
		for screen := range Screens {
			var out strings.Builder
			o := app(t, m, 80, 24, false).o
			o.Screen = Screen(screen)
			if o.Screen == Costs {
				o.Group = view.GroupWorkload
			}
			if err := Print(&out, o, output, true); err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{"\x1b", "\x07", "\r", "\u202e", "\u009b"} {
				if strings.Contains(out.String(), bad) {
					t.Errorf("-o %q of %s holds %q", output, Screens[screen], bad)
				}
			}
		}
	}
}
