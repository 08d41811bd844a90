package aws

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Concurrent requests are merged into one call; none waits longer than batchMax for others.
func TestBatcherMergesWhatComesTogether(t *testing.T) {
	clk := clock.NewVirtual(time.Unix(0, 0))
	var calls [][]string
	b := newBatcher(t.Context(), clk, func(_ context.Context, ids []string) map[string]outcome[string] {
		calls = append(calls, slices.Sorted(slices.Values(ids)))
		out := map[string]outcome[string]{}
		for _, id := range ids {
			out[id] = outcome[string]{value: "of " + id}
		}
		return out
	})
	first := b.join("a")
	for range int(batchMax/batchIdle) * 2 {
		clk.Advance(batchIdle / 2)
		b.join("b")
		if first.sent {
			break
		}
	}
	select {
	case <-first.done:
	default:
		t.Fatal("late-comers kept a batch open beyond its time")
	}
	if len(calls) != 1 || !slices.Equal(calls[0], []string{"a", "b"}) {
		t.Errorf("calls %v", calls)
	}
	if o := first.out["a"]; o.value != "of a" || o.err != nil {
		t.Errorf("outcome %+v", o)
	}
	if again := b.join("c"); again == first {
		t.Error("a question joined a batch that was sent")
	}
}
