package tui

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/nodeless/nodeless/view/viewtest"
)

// podsEach is the number of pods per node with which eks-node-viewer was measured.
const podsEach = 30

var sizes = []int{100, 1000, 5000}

// A frame when nothing has changed except by the key that was pressed, and one after a pod was added or deleted, for
// which the rows are sorted anew. `make bench-views` runs it beside eks-node-viewer's.
func BenchmarkFrame(b *testing.B) {
	for _, nodes := range sizes {
		m, pods := viewtest.Cluster(nodes, podsEach)
		for _, change := range []string{"key", "pod", "cpu-order"} {
			b.Run(fmt.Sprintf("%s/%d-nodes-%d-pods", change, nodes, nodes*podsEach), func(b *testing.B) {
				a := app(b, m, 160, 50, true)
				if change == "cpu-order" {
					press(a, "s")
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if change == "key" {
						a.move("down")
					} else {
						p := pods[i%len(pods)]
						m.DeletePod(p.UID)
						m.SetPod(p)
					}
					_ = a.Frame()
				}
			})
		}
	}
}

// One pod is deleted and added again; also how much memory a pod takes.
func BenchmarkPodEvent(b *testing.B) {
	for _, nodes := range sizes {
		b.Run(fmt.Sprintf("%d-nodes-%d-pods", nodes, nodes*podsEach), func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			m, pods := viewtest.Cluster(nodes, podsEach)
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p := pods[i%len(pods)]
				m.DeletePod(p.UID)
				m.SetPod(p)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(pods)), "B/pod")
		})
	}
}
