package binpack

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// If the best solution costs less than the cutoff, the cutoff does not change it; otherwise the search merely ends
// sooner.
func TestCutoffLosesNoCheaperSolution(t *testing.T) {
	sooner, served := 0, 0
	for seed := range uint64(60) {
		p := some(rand.New(rand.NewPCG(seed, 5)), 5, 6)
		best := Solve(p, Options{})
		if slices.ContainsFunc(best.Left, func(n int) bool { return n > 0 }) || best.Cost == 0 {
			continue
		}
		for _, below := range []int64{0, best.Cost + 1, best.Cost, best.Cost/2 + 1} {
			x := Solve(p, Options{SkipBound: true, Cutoff: below})
			judge(t, p, x)
			if x.Bound > best.Cost {
				t.Fatalf("seed %d, below %d: the bound is %d, and %d is possible", seed, below, x.Bound, best.Cost)
			}
			if below > 0 && best.Cost >= below {
				if x.Cost < below {
					t.Fatalf("seed %d: %d is below %d, and the best was %d", seed, x.Cost, below, best.Cost)
				}
				if x.Steps < best.Steps {
					sooner++
				}
				continue
			}
			served++
			if x.Cost != best.Cost || !slices.EqualFunc(x.Patterns, best.Patterns, func(a, b Pattern) bool {
				return a.Bin == b.Bin && a.Times == b.Times && slices.Equal(a.Items, b.Items)
			}) {
				t.Fatalf("seed %d, below %d: %v, and without it %v", seed, below, x, best)
			}
		}
	}
	if sooner < 10 || served < 30 {
		t.Errorf("%d times it was found out sooner, %d times served: too few to show anything", sooner, served)
	}
}
