package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// mostGrown is by how many megabytes the page's heap may be larger after some minutes: each adds 240 points to the
// timeline, up to 20,000, which take at most 150 KB.
func mostGrown(minutes int) float64 { return 1 + 0.15*float64(minutes) }

// mostNew is by how many DOM nodes and event listeners the page may then have more or fewer: a note comes or goes.
const mostNew = 20

// Changes, a hundred pods a second, are pushed to a browser as fast as it can take them: what it holds must not grow
// with them. It is an hour of a thousand nodes if BENCH is set, as make bench-views does.
func TestThePagesMemoryDoesNotGrow(t *testing.T) {
	needBrowser(t)
	nodes, minutes := 100, 6
	if os.Getenv("BENCH") != "" {
		nodes, minutes = 1000, 60
	}
	sixths := pageHolds(t, nodes, minutes)
	first, last := sixths[1], sixths[len(sixths)-1]
	fmt.Printf("page in the sixths of %d minutes of changes, %d nodes: %+v\n", minutes, nodes, sixths)
	if last.Heap > first.Heap+mostGrown(minutes) {
		t.Errorf("the page's heap grows: %+v", sixths)
	}
	for _, now := range sixths[1:] {
		if max(now.Nodes-first.Nodes, first.Nodes-now.Nodes) > mostNew ||
			max(now.Listeners-first.Listeners, first.Listeners-now.Listeners) > mostNew {
			t.Errorf("the page's DOM nodes or listeners change: %+v", sixths)
		}
	}
}

// holds is what the page holds: its heap in megabytes, DOM nodes, and event listeners.
type holds struct {
	Heap             float64
	Nodes, Listeners int
}

// pageHolds returns what the page holds before some minutes of changes, and after each sixth of them.
func pageHolds(t *testing.T, nodes, minutes int) []holds {
	t.Helper()
	s := open(t, nodes, 30)
	s.decided, s.life = newDecided(&diary{}, s.clock), t.Context()
	s.step(func() {})
	pods, turn := s.pods, 0
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		for range n * 60 * int(time.Second/frameGap) {
			for range 25 {
				i := turn * 37 % len(pods)
				now := *pods[i]
				now.Deleting = turn/len(pods)%2 == 0
				s.model.SetPod(&now)
				pods[i] = &now
				turn++
			}
			s.clock.Advance(frameGap)
			s.journal = s.advance(s.journal)
		}
		last := len(pods) - 1
		s.step(func() { s.model.DeletePod(pods[last].UID) }) // so that the sums change
		pods = pods[:last]
		fmt.Fprint(w, s.model.Totals().Running)
	}))
	defer control.Close()
	script := exec.CommandContext(t.Context(), "node", "test/hour.mjs", s.http.URL, control.URL, fmt.Sprint(nodes),
		fmt.Sprint(minutes))
	script.Dir, script.Stderr = filepath.Join("page"), os.Stderr
	out, err := script.Output()
	var sixths []holds
	if err == nil {
		err = json.Unmarshal(out, &sixths)
	}
	if err != nil || len(sixths) != 7 {
		t.Fatalf("%v: %s", err, out)
	}
	return sixths
}
