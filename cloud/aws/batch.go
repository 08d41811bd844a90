package aws

import (
	"context"
	"sync"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// A batch is sent when no ID has been added for batchIdle, at most batchMax after the first, and at once when it is
// full. EC2 takes many IDs in one call and throttles calls, not IDs.
const (
	batchIdle = 10 * time.Millisecond
	batchMax  = time.Second
	batchSize = 500
)

// outcome is the result of a batch call for one ID.
type outcome[T any] struct {
	value T
	err   error
}

// batcher merges calls for single IDs into calls for many. An ID that occurs twice in a batch is sent once.
type batcher[T any] struct {
	ctx  context.Context // ends calls in progress
	clk  clock.Clock
	call func(ctx context.Context, ids []string) map[string]outcome[T] // returns an outcome for every ID
	sent func(waited time.Duration, size int)                          // is called with each batch; may be nil

	mu   sync.Mutex
	open *batch[T]
}

type batch[T any] struct {
	ids   []string
	known map[string]bool
	first time.Time
	timer clock.Timer
	sent  bool
	done  chan struct{}
	out   map[string]outcome[T]
}

func newBatcher[T any](ctx context.Context, clk clock.Clock,
	call func(context.Context, []string) map[string]outcome[T],
) *batcher[T] {
	return &batcher[T]{ctx: ctx, clk: clk, call: call}
}

// do returns the outcome for one ID; it stops waiting when ctx ends.
func (b *batcher[T]) do(ctx context.Context, id string) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	mine := b.join(id)
	select {
	case <-mine.done:
		o := mine.out[id]
		return o.value, o.err
	case <-ctx.Done():
		return zero, ctx.Err()
	case <-b.ctx.Done():
		return zero, b.ctx.Err()
	}
}

func (b *batcher[T]) join(id string) *batch[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clk.Now()
	if b.open == nil {
		b.open = &batch[T]{known: map[string]bool{}, first: now, done: make(chan struct{})}
	}
	mine := b.open
	if !mine.known[id] {
		mine.known[id] = true
		mine.ids = append(mine.ids, id)
	}
	if mine.timer != nil {
		mine.timer.Stop()
	}
	if len(mine.ids) >= batchSize {
		b.open, mine.sent = nil, true
		go b.send(mine)
		return mine
	}
	wait := min(batchIdle, mine.first.Add(batchMax).Sub(now))
	mine.timer = b.clk.AfterFunc(wait, func() { b.close(mine) })
	return mine
}

// close closes a batch to further IDs and sends it, once.
func (b *batcher[T]) close(mine *batch[T]) {
	b.mu.Lock()
	if mine.sent {
		b.mu.Unlock()
		return
	}
	mine.sent = true
	if b.open == mine {
		b.open = nil
	}
	b.mu.Unlock()
	b.send(mine)
}

func (b *batcher[T]) send(mine *batch[T]) {
	if b.sent != nil {
		b.sent(b.clk.Now().Sub(mine.first), len(mine.ids))
	}
	mine.out = b.call(b.ctx, mine.ids)
	close(mine.done)
}
