package engine_test

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// One call of Disrupt as it is made between two answers to pods, in a large cluster of which it finds 100 nodes
// that may go: what each call costs anew, and what each of its 100 steps does. Processor time on the project's 2-core
// box, other processes running, 22 November 2026: 1,000 machines 0.035 s (0.048 s before what-ifs kept machines
// ranked by what is free of them), 10,000 nodes 0.22 s (0.47 s before).
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
