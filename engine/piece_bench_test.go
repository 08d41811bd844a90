package engine_test

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// One call of Disrupt as the controller makes it between two provisioning plans, in a large cluster in which it finds
// 100 removable nodes: it measures the fixed cost of a call and the cost of each of its 100 steps. Processor time on
// the project's 2-core box, other processes running, 22 November 2026: 1,000 nodes 0.035 s (0.048 s before what-ifs
// kept nodes ranked by their free capacity), 10,000 nodes 0.22 s (0.47 s before).
func BenchmarkOnePiece(b *testing.B) {
	for _, machines := range []int{1000, 10000} {
		s := underused(machines, 1)
		b.Run(fmt.Sprintf("%d machines", machines), func(b *testing.B) {
			before := processorTime()
			var p model.Plan
			for b.Loop() {
				p = engine.Disrupt(s, model.Policy{After: model.Cursor{Underutilized: "-"}})
			}
			b.ReportMetric((processorTime()-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(len(p.Commands)), "commands")
		})
	}
}
