package web

import (
	"context"
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

	"github.com/nodeless/nodeless/internal/clock"
	"github.com/nodeless/nodeless/internal/view/viewtest"
)

// mostGrown is how many megabytes the page's heap may be larger after an hour than after ten minutes: the line of time has some 12,000
// points more then, of which it keeps no more than 20,000.
const mostGrown = 10

// An hour of changes, a hundred pods a second, is pushed to a browser as fast as that takes them: its memory must not grow with them.
// BENCH is set by make bench-views.
func TestThePagesMemoryAfterAnHour(t *testing.T) {
	if os.Getenv("BENCH") == "" {
		t.Skip("measured by make bench-views")
	}
	needBrowser(t)
	const nodes = 1000
	m, pods := viewtest.Cluster(nodes, 30)
	c := clock.NewVirtual(viewtest.Now)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Context: "story", Model: m, Clock: c})
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	grown := func() <-chan struct{} {
		s.history.mu.Lock()
		defer s.history.mu.Unlock()
		return s.history.grown
	}
	turn, gone := 0, 0
	minutes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		for range n * 60 * int(time.Second/frameGap) {
			news := grown()
			for range 25 {
				i := turn * 37 % len(pods)
				now := *pods[i]
				now.Deleting = turn/len(pods)%2 == 0
				m.SetPod(pods[i], &now)
				pods[i] = &now
				turn++
			}
			for waiting := true; waiting; { // until it is a frame
				c.Advance(frameGap)
				select {
				case <-news:
					waiting = false
				case <-r.Context().Done():
					return
				case <-time.After(time.Millisecond): // the timer may not have been set yet
				}
			}
		}
		m.SetPod(pods[gone], nil) // so that the sums are others
		pods = append(pods[:gone], pods[gone+1:]...)
		c.Advance(frameGap)
		fmt.Fprint(w, m.Totals().Running)
	}))
	defer minutes.Close()
	script := exec.CommandContext(ctx, "node", "test/hour.mjs", "http://"+l.Addr().String(), minutes.URL, fmt.Sprint(nodes))
	script.Dir, script.Stderr = filepath.Join("..", "..", "..", "web"), os.Stderr
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
