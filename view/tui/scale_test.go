package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// waiting returns a model of ten nodes and n pending pods of one shape.
func waiting(n int) *view.Model {
	m, _ := viewtest.Cluster(10, 0)
	for i := range n {
		m.SetPod(&view.Pod{
			UID: fmt.Sprint("uid-", i), Namespace: "shop", Name: fmt.Sprintf("batch-%05d", i), Created: viewtest.Now,
			Requests: view.Amounts{500, viewtest.Gi}, Verdict: "0/10 nodes are available: 10 Insufficient cpu.",
		})
	}
	return m
}

// A frame after a key costs what its visible rows cost, however many others there are.
func TestAFrameCostsWhatItShows(t *testing.T) {
	few, _ := viewtest.Cluster(100, 3)
	many, _ := viewtest.Cluster(5000, 3)
	for screen, models := range map[Screen][2]*view.Model{
		Nodes: {few, many}, Pending: {waiting(100), waiting(10_000)},
	} {
		var allocs, size [2]float64
		for i, m := range models {
			a := app(t, m, 160, 50, true)
			a.show(screen)
			size[i] = float64(len(a.Frame()))
			allocs[i] = testing.AllocsPerRun(20, func() {
				a.move("down")
				_ = a.Frame()
			})
		}
		if allocs[1] > 1.2*allocs[0] || size[1] > 1.2*size[0] {
			t.Errorf("%s: allocations %v, bytes %v", Screens[screen], allocs, size)
		}
	}
}

// Text from right to left, emoji of several code points and wide characters fill their columns exactly.
func TestLinesOfAllScriptsAreStraight(t *testing.T) {
	m := shop(t)
	for i, text := range []string{
		"👩\u200d💻👩\u200d💻👩\u200d💻👩\u200d💻", "מאגר-של-מפתחים-ארוך", "مجمع-المطورين", "می\u200cخواهم", "노드풀-개발자용", "❤\ufe0f\u200d🔥🇰🇷é",
	} {
		n := *viewtest.Node(i)
		n.Labels = map[string]string{"team": text, "karpenter.sh/nodepool": text, "topology.kubernetes.io/zone": text}
		m.SetNode(&n)
		m.DeleteClaim(viewtest.Claim(i).Name)
		m.SetNode(&view.Node{Name: text + ".example.com", Created: viewtest.Now, Labels: n.Labels})
		m.SetPod(&view.Pod{UID: text, Namespace: "shop", Name: text, Created: viewtest.Now, Verdict: text})
	}
	for _, w := range []int{40, 80, 119, 200} {
		for _, screen := range []string{"1", "2", "3", "1g"} {
			a := app(t, m, w, 40, true)
			press(a, screen)
			lines := strings.Split(commands.ReplaceAllString(a.Frame(), ""), "\n")
			for _, line := range lines[a.rowsAt:] {
				if n := width(line); n != w && n != 0 {
					t.Errorf("screen %s: %d columns of %d: %q", screen, n, w, line)
				}
			}
		}
	}
	sees(t, app(t, m, 200, 40, false), "👩\u200d💻", "می\u200cخواهم")
}

// Backspace deletes what the user sees as one character.
func TestACharacterIsDeletedAsAWhole(t *testing.T) {
	a := app(t, shop(t), 120, 30, false)
	a.Frame()
	for _, open := range []string{"/", ":"} {
		press(a, open)
		for _, text := range []string{"a👩\u200d💻", "\u200d", "é", "🇰🇷", "x\u202ey\u200bz"} {
			a.typed(text)
		}
		for _, want := range []string{
			"a👩\u200d💻é🇰🇷x y z", "a👩\u200d💻é🇰🇷x y ", "a👩\u200d💻é🇰🇷x y", "a👩\u200d💻é🇰🇷x ", "a👩\u200d💻é🇰🇷x", "a👩\u200d💻é🇰🇷", "a👩\u200d💻é",
			"a👩\u200d💻", "a", "",
		} {
			if got := a.state().filter + a.prompt.line; got != want {
				t.Errorf("%s: %q, want %q", open, got, want)
			}
			press(a, "backspace")
		}
		press(a, "esc")
	}
}
