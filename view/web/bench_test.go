package web

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

var sizes = []int{100, 1000, 5000}

// How long the first state of a cluster takes to generate, and its size, with 30 pods on each node.
func BenchmarkState(b *testing.B) {
	for _, nodes := range sizes {
		b.Run(fmt.Sprintf("%d_nodes", nodes), func(b *testing.B) {
			m, _ := viewtest.Cluster(nodes, 30)
			s := New(Options{Model: m})
			s.advance(m.Journal())
			var text []byte
			for b.Loop() {
				var err error
				if _, text, err = s.history.state(time.Time{}, m.Resources()); err != nil {
					b.Fatal(err)
				}
			}
			var small counter
			zip, _ := gzip.NewWriterLevel(&small, gzip.BestSpeed)
			_, _ = zip.Write(text)
			_ = zip.Close()
			b.ReportMetric(float64(len(text)), "bytes")
			b.ReportMetric(float64(small), "gzip-bytes")
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// How long a frame takes to generate after a pod was deleted or added, and its size.
func BenchmarkFrame(b *testing.B) {
	for _, nodes := range sizes {
		b.Run(fmt.Sprintf("%d_nodes", nodes), func(b *testing.B) {
			m, pods := viewtest.Cluster(nodes, 30)
			s := New(Options{Model: m})
			j := s.advance(m.Journal())
			var text [][]byte
			for i := 0; b.Loop(); i++ {
				p := pods[i%len(pods)]
				m.DeletePod(p.UID)
				j = s.advance(j)
				var err error
				last := s.history.last()
				if text, _, _, _, err = s.history.since(fmt.Sprintf("%s.%d", s.history.epoch, last.seq-1), 1); err != nil {
					b.Fatal(err)
				}
				m.SetPod(p)
				j = s.advance(j)
			}
			b.ReportMetric(float64(len(text[0])), "bytes")
		})
	}
}

// How long a browser takes from the address to the painted boxes, and for a frame while the user scrolls and pods
// come and go; in milliseconds, the median of five. make bench-views sets BENCH, and only then the budgets are
// checked, as they depend on the machine.
func TestFirstPaint(t *testing.T) {
	if os.Getenv("BENCH") == "" {
		t.Skip("measured by make bench-views")
	}
	needBrowser(t)
	for _, nodes := range sizes {
		s := &stage{t: t}
		s.model, s.pods = viewtest.Cluster(nodes, 30)
		if err := s.serve(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go replacePods(ctx, s.model, s.pods)
		script := exec.CommandContext(ctx, "node", "test/paint.mjs", Link(s.address, storyToken), fmt.Sprint(nodes))
		script.Dir, script.Stderr = filepath.Join("page"), os.Stderr
		out, err := script.Output()
		cancel()
		s.stop()
		var took struct{ FirstPaint, FirstBytes, Frame95 float64 }
		if err == nil {
			err = json.Unmarshal(out, &took)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		fmt.Printf("page %5d nodes %7d pods  %s", nodes, len(s.pods), out)
		switch {
		case nodes == 100 && (took.FirstPaint > 1000 || took.FirstBytes > mostFirstVisit):
			t.Errorf("%d nodes: the first paint takes more than a second or %d bytes: %s", nodes, mostFirstVisit, out)
		case nodes == 5000 && took.Frame95 > 33:
			t.Errorf("%d nodes: one frame in twenty takes longer than 33 ms: %s", nodes, out)
		}
	}
}

// replacePods deletes and adds a hundred pods a second.
func replacePods(ctx context.Context, m *view.Model, pods []*view.Pod) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p := pods[i*37%len(pods)]
			m.DeletePod(p.UID)
			m.SetPod(p)
			now := *p
			now.Deleting = i%2 == 0
			m.SetPod(&now)
			pods[i*37%len(pods)] = &now
		}
	}
}
