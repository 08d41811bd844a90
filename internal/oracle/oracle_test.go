package oracle

import (
	"testing"
	"time"
)

func TestTruthBalance(t *testing.T) {
	tr := newTruth(t)
	start := time.Now()
	tally := newBalance()
	cases := 0
	for i := uint64(0); i < 20000; i++ {
		c := generate(1, i)
		for _, j := range tr.judge(c) {
			tally.add(j)
			cases++
		}
	}
	t.Logf("%d cases in %v\n%s", cases, time.Since(start), tally)
}
