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

// mostGrown is by how many megabytes the page's heap may be larger after an hour than after ten minutes: the timeline
// then has some 12,000 points more, of which it keeps no more than 20,000.
const mostGrown = 10

// An hour of changes, a hundred pods a second, is pushed to a browser as fast as it can take them: its memory must
// not grow with them. make bench-views sets BENCH.
func TestThePagesMemoryAfterAnHour(t *testing.T) {
	if os.Getenv("BENCH") == "" {
		t.Skip("measured by make bench-views")
	}
	needBrowser(t)
	const nodes = 1000
	s := open(t, nodes, 30)
	s.step(func() {})
	pods, turn := s.pods, 0
	minutes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	defer minutes.Close()
	script := exec.CommandContext(t.Context(), "node", "test/hour.mjs", s.http.URL, minutes.URL, fmt.Sprint(nodes))
	script.Dir, script.Stderr = filepath.Join("page"), os.Stderr
	out, err := script.Output()
	var heap map[string]float64
	if err == nil {
		err = json.Unmarshal(out, &heap)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fmt.Printf("page's heap in MB during an hour of changes, %d nodes: %s", nodes, out)
	if heap["minute60"] > heap["minute10"]+mostGrown {
		t.Errorf("the page's memory grows: %s", out)
	}
}
