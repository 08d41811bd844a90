package why

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

func TestASubjectIsReadAsKubectlReadsIt(t *testing.T) {
	for text, want := range map[string]string{
		"pod/web": "pod shop/web", "po web": "pod shop/web", "Pods/web": "pod shop/web", "node/n1": "node n1",
		"no n1":         "node n1",
		"nodeclaim/c-1": "nodeclaim c-1", "nodeclaims.karpenter.sh/c-1": "nodeclaim c-1",
		"nodepool general": "nodepool general",
		"deployment/web":   "deployment shop/web", "deploy/web": "deployment shop/web",
		"deployment.apps/web": "deployment shop/web", "job.batch/j": "job shop/j",
		"cronjob.batch/j": "cronjob shop/j", "daemonset.apps/d": "daemonset shop/d",
		"statefulset.apps/s": "statefulset shop/s",
		"replicaset.apps/r":  "replicaset shop/r", "replicationcontroller/r": "replicationcontroller shop/r",
		"nodepool.karpenter.sh/g":  "nodepool g",
		"nodeclaim.karpenter.sh/c": "nodeclaim c",
	} {
		if got, err := Parse("shop", strings.Fields(text)...); err != nil || got.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"web": "has no kind", "service/web": "unknown kind", "job.apps/web": "unknown kind", "pod.v1/web": "unknown kind",
		"pod/": "not the name", "pod/a/b": "not the name", "pod": "has no kind", "a b c": "3 words",
	} {
		if got, err := Parse("shop", strings.Fields(text)...); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "nodepool/NAME") {
			t.Errorf("%s is %s, %v; want an error that says %q and what to do", text, got, err, want)
		}
	}
	if got, _ := Parse("", "pod/web"); got.Namespace != "default" {
		t.Errorf("without a namespace: %+v", got)
	}
}

func TestNamesThatAreNearAreOffered(t *testing.T) {
	names := []string{"web-7fb4-x2x", "web-7fb4-x2y", "cart-1", "general-purpose"}
	for asked, want := range map[string]string{
		"web-7fb4-x2x1": "web-7fb4-x2x web-7fb4-x2y", "web": "web-7fb4-x2x web-7fb4-x2y",
		"genral-purpose": "general-purpose", "zzz": "", "kart-1": "cart-1",
	} {
		if got := strings.Join(nearest(asked, names), " "); got != want {
			t.Errorf("near %s: %q, want %q", asked, got, want)
		}
	}
}

// A name or message with escape sequences, line ends or bidirectional control characters is displayed, not
// interpreted.
func TestHostileTextIsShownNotObeyed(t *testing.T) {
	hostile := "a\x1b[2Jb\nc\u202egnp.exe\u0085d\u200be\xff"
	a := &Answer{
		Subject: Subject{Kind: NodeKind, Name: hostile}, State: hostile, Summary: hostile,
		Facts: []Fact{{"event", hostile}, {hostile, "x"}},
	}
	var b strings.Builder
	if err := a.Text(&b, Format{}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "\n") != 3 || strings.ContainsAny(b.String(), "\x1b\u202e\u0085\u200b") {
		t.Errorf("%q", b.String())
	}
	if !strings.Contains(b.String(), `a\x1b[2Jb\x0ac\u202egnp.exe\x85d\u200be`) {
		t.Errorf("%q", b.String())
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	safe := printable.JSON(text)
	if strings.ContainsAny(string(safe), "\x1b\u202e\u0085\u200b") {
		t.Errorf("%q", safe)
	}
	var back Answer
	if err := json.Unmarshal(safe, &back); err != nil || back.Summary != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("%q, %v", back.Summary, err)
	}
}

func TestColourIsOnlyWhereItIsWanted(t *testing.T) {
	a := &Answer{
		Subject: Subject{Kind: NodeKind, Name: "n1"}, State: "Ready", Summary: "it stays",
		Facts: []Fact{{"machine", "m5.large"}, {"machine", "more"}},
	}
	var plain, coloured strings.Builder
	if err := a.Text(&plain, Format{}); err != nil {
		t.Fatal(err)
	}
	if err := a.Text(&coloured, Format{Colour: true}); err != nil {
		t.Fatal(err)
	}
	if want := "node n1  Ready  it stays\n machine  m5.large\n          more\n"; plain.String() != want {
		t.Errorf("got %q, want %q", plain.String(), want)
	}
	if !strings.Contains(coloured.String(), "\x1b[1m") {
		t.Errorf("%q", coloured.String())
	}
}

// Labels and sentences are translated, commands are not, and characters that take two columns count as two.
func TestAnswersInAnotherLanguage(t *testing.T) {
	a := &Answer{
		Subject: Subject{Kind: NodeKind, Name: "n1"}, State: "Ready", Summary: "it stays",
		Facts: []Fact{{"machine", "m5.large"}, {"runs", "two pods"}, {commandLabel, "kubectl get nodes"}},
	}
	words := map[string]string{
		"it stays": "유지됩니다", "runs": "실행", "two pods": "파드 두 개", "command": "명령", "kubectl get nodes": "틀림",
	}
	say := func(text string) string { return cmp.Or(words[text], text) }
	var b strings.Builder
	if err := a.Text(&b, Format{Say: say}); err != nil {
		t.Fatal(err)
	}
	if want := "node n1  Ready  유지됩니다\n machine  m5.large\n 실행     파드 두 개\n 명령     kubectl get nodes\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	if a.Facts[1].Text != "two pods" {
		t.Error("the answer itself was changed")
	}
}

// On a terminal no line is wider than the terminal, except for commands, which are to be copied, and single words
// that are too long.
func TestLinesEndWhereTheTerminalDoes(t *testing.T) {
	long := strings.Repeat("many words ", 12)
	a := &Answer{
		Subject: Subject{Kind: NodeKind, Name: "n1"}, State: "Ready", Summary: long,
		Facts: []Fact{{"machine", long}, {"machine", strings.Repeat("x", 60)}, {commandLabel, long}},
	}
	for _, colour := range []bool{false, true} {
		var b strings.Builder
		if err := a.Text(&b, Format{Colour: colour, Width: 50}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[0m",
			"").Replace(b.String()), "\n") {
			if len(line) > 50 && !strings.Contains(line, "xxx") && !strings.Contains(line, commandLabel) {
				t.Errorf("%d characters: %q", len(line), line)
			}
			if strings.Contains(line, commandLabel) && !strings.Contains(line, strings.TrimSpace(long)) {
				t.Errorf("a command is broken: %q", line)
			}
		}
	}
}

// Text is not repeated: kube-scheduler's verdict is on the pod and in its events. Events that every node has are left
// out.
func TestTheSameTextIsSaidOnce(t *testing.T) {
	event := func(reason, message string) corev1.Event { return corev1.Event{Reason: reason, Message: message} }
	q := &question{a: &Answer{Facts: []Fact{{"kube-scheduler", "0/3 nodes are available: 3 Insufficient cpu."}}}}
	got := q.news([]corev1.Event{
		event("FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu."),
		event("FailedScheduling", "0/2 nodes are available."),
		event("NodeReady", "Node n status is now: NodeReady"), event("FailedScheduling", "0/2 nodes are available."),
		event("Nominated", "Pod should schedule on: nodeclaim/a"),
	})
	if len(got) != 2 || got[0].Message != "0/2 nodes are available." || got[1].Reason != "Nominated" {
		t.Errorf("%+v", got)
	}
}
