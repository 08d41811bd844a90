package region

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

func TestAQueueThatNobodyReadsIsBounded(t *testing.T) {
	v := clock.NewVirtual(time.Date(2026, 11, 5, 9, 0, 0, 0, time.UTC))
	r, err := Open(Config{Name: "us-west-2", Clock: v})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.SetCluster(ClusterInfo{Name: "prod"}); err != nil {
		t.Fatal(err)
	}
	kept := func(events int) int {
		r.mu.Lock()
		defer r.mu.Unlock()
		for range events {
			r.queues.sendAll("event")
		}
		return len(r.queues.byName["prod"].messages)
	}
	if n := kept(maxMessages + 5); n != maxMessages {
		t.Errorf("%d messages are kept, want %d", n, maxMessages)
	}
	v.Advance(retention + time.Second)
	if n := kept(1); n != 1 {
		t.Errorf("%d messages are kept once the others have expired, want 1", n)
	}
}
