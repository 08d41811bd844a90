package oracle

import (
	"fmt"
	"strings"
)

// balance counts the verdicts of each plugin.
type balance struct {
	of      [][3]int // by judges, then by verdict
	allowed int
	cases   int
}

func newBalance() *balance { return &balance{of: make([][3]int, len(judges))} }

func (b *balance) add(j judgement) {
	for k, v := range j {
		b.of[k][v]++
	}
	b.cases++
	if j.allowed() {
		b.allowed++
	}
}

func (b *balance) String() string {
	var out strings.Builder
	line := func(name string, accepts, rejects int) {
		fmt.Fprintf(&out, "%-20s %9d accepts %9d rejects", name, accepts, rejects)
		if all := accepts + rejects; all > 0 {
			fmt.Fprintf(&out, " (%d %%)", 100*rejects/all)
		}
		out.WriteByte('\n')
	}
	for k, name := range judges {
		line(name, b.of[k][accepts], b.of[k][rejects])
	}
	line("all together", b.allowed, b.cases-b.allowed)
	return out.String()
}
