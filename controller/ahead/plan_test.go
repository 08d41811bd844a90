package ahead

import (
	"slices"
	"testing"
	"time"
)

func seconds(n ...int) (out []time.Duration) {
	for _, x := range n {
		out = append(out, time.Duration(x)*time.Second)
	}
	return out
}

// The more pods wait, and the cheaper idle nodes are, the earlier nodes are launched.
func TestHowLongAheadNodesAreLaunched(t *testing.T) {
	boots := seconds(31, 33, 35, 36, 38, 40, 41, 44, 50, 90)
	for _, c := range []struct {
		waiting, price float64
		nodes, want    int // seconds
	}{
		{30, 1, 1, 91},
		{6, 1, 1, 51},
		{6, 1, 2, 91}, // both nodes in time: the 93rd percentile each
		{1, 1, 1, 39},
		{1, 15, 1, 32},
		{1, 0, 1, 91},
	} {
		if got := leadOf(c.waiting, c.price, c.nodes, boots); got != time.Duration(c.want)*time.Second {
			t.Errorf("waiting at %v, %d nodes at %v: %s ahead, want %ds", c.waiting, c.nodes, c.price, got, c.want)
		}
	}
}

func TestWhatItCostsToLaunchAhead(t *testing.T) {
	const perSecond = 3600
	ahead, after := costs(10*perSecond, 2*perSecond, 40*time.Second, seconds(30, 50))
	// One boot leaves the node idle for 10 s at 2, the other makes pods wait 10 s at 10. Without launching ahead they
	// wait 40 s at 10.
	if ahead != (20+100)/2 || after != 400 {
		t.Errorf("ahead %d, without %d; want 60 and 400", ahead, after)
	}
}

func TestTheQuantileIsTheSmallestThatSoManyDoNotExceed(t *testing.T) {
	have := seconds(1, 2, 3, 4)
	for share, want := range map[float64]int{0: 1, 0.25: 1, 0.26: 2, 0.5: 2, 0.9: 4, 1: 4} {
		if got := quantile(have, share); got != time.Duration(want)*time.Second {
			t.Errorf("%v: %s, want %ds", share, got, want)
		}
	}
}

func TestBootsAreRememberedByPool(t *testing.T) {
	b := &Boots{}
	if got := b.of("p"); !slices.Equal(got, []time.Duration{DefaultBoot}) {
		t.Errorf("before any: %v", got)
	}
	for range 2 { // a known boot is not counted again
		b.Observe(booted("q", 0, 70))
	}
	if got := b.of("p"); !slices.Equal(got, seconds(60, 70)) {
		t.Errorf("of another pool: %v", got)
	}
	for i := range maxBoots + 5 {
		b.Observe(booted("p", i, 100-i))
	}
	if got := b.of("p"); len(got) != maxBoots || got[maxBoots-1] != 95*time.Second {
		t.Errorf("%d boots, the longest %s; want the last %d", len(got), got[len(got)-1], maxBoots)
	}
	if got := b.longest(); got != 95*time.Second {
		t.Errorf("the longest is %s", got)
	}
}
