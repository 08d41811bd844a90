package tui

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/nodeless/nodeless/view/viewtest"
)

func sees(t *testing.T, a *App, words ...string) {
	t.Helper()
	for _, w := range words {
		if frame := a.Frame(); !strings.Contains(frame, w) {
			t.Errorf("%q is not seen in\n%s", w, frame)
		}
	}
}

func TestKeysLeadAround(t *testing.T) {
	a := app(t, shop(t), 120, 30, false)
	a.Frame()
	press(a, "/spot", "enter")
	sees(t, a, "/spot: 2 of 9", ">general-x7k2p")
	press(a, "esc")
	sees(t, a, "ip-10-0-0-5")
	press(a, "home", "enter")
	sees(t, a, "pods of fargate-ip-10-0-7-9", "microVM of shop/search-0", "no pods")
	press(a, "esc", "end", "enter")
	sees(t, a, "pods of metal-1", ">kube-system/dns-0")
	press(a, "esc")
	sees(t, a, "[1 nodes 9]", ">metal-1")
	press(a, "2", "enter")
	sees(t, a, "/pool=batch: ", "[1 nodes 9]")
	press(a, "esc", "3", "enter")
	sees(t, a, "why     no instance type of pool general", "the largest")
	press(a, "esc", "tab")
	sees(t, a, "[4 decisions 4]")
	press(a, "tab")
	sees(t, a, "[5 savings]", "saved $0.3384 in 26h")
	press(a, "tab", "g")
	sees(t, a, "[6 costs] by workload", ">shop")
	press(a, "esc", "s")
	sees(t, a, "[6 costs] sort name=asc", " kube-system")
	press(a, "tab")
	sees(t, a, "[1 nodes 9]")
	press(a, "g", "home")
	sees(t, a, ">─ pool=(none) · 2 nodes")
	press(a, "down", "down", "down", "enter")
	sees(t, a, "/pool=batch: 3 of 9")
	press(a, "esc", "w")
	sees(t, a, "node ")
	if press(a, "esc") {
		t.Error("esc left the program from a detail")
	}
	if !press(a, "esc") {
		t.Error("esc at the top did not leave the program, as it does in eks-node-viewer")
	}
	for _, key := range []string{"q", "ctrl+c"} {
		if !press(a, key) {
			t.Errorf("%s did not leave the program", key)
		}
	}
}

// A node, a pool and a pod lead to the decisions about them, from there to all details of a decision, and back.
func TestADecisionIsReachedFromWhatItIsAbout(t *testing.T) {
	a := app(t, shop(t), 120, 30, false)
	press(a, "/ip-10-0-0-1", "enter", "D")
	sees(t, a, "[4 decisions 4]", "about node/ip-10-0-0-1", "26h Launch", "Replace")
	if frame := a.Frame(); strings.Contains(frame, "Refuse") || strings.Contains(frame, "Remove") {
		t.Errorf("what was decided about others is shown:\n%s", frame)
	}
	press(a, "down", "enter")
	sees(t, a, "decision a1  Launch", "next best c6a.xlarge", "2: shop/web-0 shop/web-1", "Ready ip-10-0-0-1")
	press(a, "esc", "esc")
	sees(t, a, "[1 nodes 9]", ">ip-10-0-0-1")
	press(a, "w")
	sees(t, a, "decided 20s ago: the pods of ip-10-0-0-1 cost less", "decided 26h ago: c5.xlarge for 2 pods")
	press(a, "esc", "2", "home", "D")
	sees(t, a, "about nodepool/batch", "Remove", "nobody needs ip-10-0-9-9")
	press(a, "4")
	sees(t, a, "Refuse", "Launch")
	press(a, "3", "home", "D")
	sees(t, a, "about pod/shop/train-0", ">   42s Refuse")
	press(a, "esc")
	sees(t, a, "[3 pending 2]")
	press(a, "4", "/reason=Empty", "enter")
	sees(t, a, "/reason=Empty: 1 of 4", "terminated after 30s")
	press(a, "5", "s", "home", "enter")
	sees(t, a, "saved    $0.3386, Counting", "decision b2  Remove Empty", "Compared with the same cluster")
}

// Text that is longer than the terminal is scrolled line by line.
func TestADetailIsLongerThanTheTerminal(t *testing.T) {
	a := app(t, shop(t), 80, 14, false)
	press(a, "5", "enter")
	sees(t, a, "more lines")
	press(a, "end")
	sees(t, a, "are drift, expiry and interruptions.")
	press(a, "home", "down", "down")
	sees(t, a, "what the removed nodes would have cost")
	if press(a, "esc"); a.sheet != noSheet {
		t.Error("esc does not leave it")
	}
}

func TestAFilterIsTyped(t *testing.T) {
	a := app(t, shop(t), 120, 30, false)
	press(a, "/metalx")
	sees(t, a, "/metalx█", "no nodes match /metalx")
	press(a, "backspace")
	sees(t, a, "metal-1")
	press(a, "esc")
	sees(t, a, "ip-10-0-0-0")
	press(a, "/q")
	if a.state().filter != "q" {
		t.Error("q left the filter that is typed")
	}
	if press(a, "ctrl+u", "enter"); a.state().filter != "" || a.typing {
		t.Errorf("the filter is %q", a.state().filter)
	}
}

func TestOrdersAndColumnsChange(t *testing.T) {
	a := app(t, shop(t), 80, 24, false)
	press(a, "s")
	sees(t, a, "sort cpu=dsc", "CPU↓")
	press(a, "S")
	sees(t, a, "sort cpu=asc", "CPU↑")
	press(a, ">", ">", ">", ">")
	if frame := a.Frame(); strings.Contains(frame, "TYPE") || !strings.Contains(frame, "NODE") {
		t.Errorf("columns did not move:\n%s", frame)
	}
	press(a, "<", "<", "<", "<")
	sees(t, a, "TYPE")
	press(a, "$")
	sees(t, a, "$/MONTH")
}

// The whole program on a terminal: it draws, obeys keys, and restores the screen.
func TestTheProgramLeavesTheTerminalClean(t *testing.T) {
	for _, keys := range []string{"q", "\x03", "3/web\r\x1b[B\x03"} {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		p := tea.NewProgram(app(t, shop(t), 80, 24, true), tea.WithContext(ctx), tea.WithInput(strings.NewReader(keys)),
			tea.WithOutput(&out),
			tea.WithWindowSize(80, 24), tea.WithoutSignalHandler())
		_, err := p.Run()
		cancel()
		if err != nil {
			t.Fatalf("%q: %v", keys, err)
		}
		for on, off := range map[string]string{
			"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h",
			"\x1b[?2004h": "\x1b[?2004l", "\x1b[?1002h": "\x1b[?1002l",
		} {
			if s := out.String(); strings.LastIndex(s, on) > strings.LastIndex(s, off) {
				t.Errorf("%q: %q is not taken back in %q", keys, on, s)
			}
		}
	}
}

func TestStylesAreRead(t *testing.T) {
	for _, fine := range []string{"#04B575,#FFFF00,#FF0000", "#0f0, 11 ,196"} {
		if _, err := ParseStyle(fine); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{
		"", "#04B575", "#04B575,#FFFF00,red", "#04B575,#FFFF00,#12", "#04B575,#FFFF00,256",
		"#04B575,#FFFF00,#GG0000",
	} {
		if _, err := ParseStyle(bad); err == nil {
			t.Errorf("%q is taken for a style", bad)
		}
	}
}

func TestTheModelWakesTheProgram(t *testing.T) {
	m := shop(t)
	a := app(t, m, 80, 24, false)
	<-m.Changed() // from its creation
	m.SetNode(viewtest.Node(30))
	if _, ok := a.await().(changed); !ok {
		t.Error("a change is not told")
	}
	if _, cmd := a.Update(changed{}); cmd == nil {
		t.Error("nobody waits for the next change")
	}
}

// The program waits for changes of its model no longer than it is shown: another context has a model of its own.
func TestAProgramThatHasEndedWaitsForNothing(t *testing.T) {
	m := shop(t)
	a := app(t, m, 80, 24, false)
	<-m.Changed() // from its creation
	done := make(chan struct{})
	a.o.Done = done
	close(done)
	if got := a.await(); got != nil {
		t.Errorf("it got %v", got)
	}
}
