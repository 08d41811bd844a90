// Package workqueue is a work queue on internal/kit/clock. One worker at a time handles a key: as soon as possible,
// at a requested time, or after a back-off if it failed.
package workqueue

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Back-off of a failing key.
const (
	firstBackoff = 20 * time.Millisecond
	mostBackoff  = 30 * time.Second
)

// Work handles a key. A positive duration requests another call after that time.
type Work func(ctx context.Context, key string) (time.Duration, error)

// Queue is a set of keys to handle. It is safe for concurrent use.
type Queue struct {
	name    string
	clock   clock.Clock
	log     *slog.Logger
	q       workqueue.TypedInterface[string]
	backoff workqueue.TypedRateLimiter[string]

	mu  sync.Mutex
	due map[string]alarm // the next call by the clock
}

type alarm struct {
	at    time.Time
	timer clock.Timer
}

// New returns an empty queue. name identifies it in the log.
func New(name string, c clock.Clock, log *slog.Logger) *Queue {
	return &Queue{
		name: name, clock: c, log: log, q: workqueue.NewTyped[string](), due: map[string]alarm{},
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstBackoff, mostBackoff),
	}
}

// Add queues the key for the next free worker.
func (q *Queue) Add(key string) { q.q.Add(key) }

// After queues the key in d, unless an earlier time was already requested.
func (q *Queue) After(key string, d time.Duration) {
	at := q.clock.Now().Add(d)
	q.mu.Lock()
	defer q.mu.Unlock()
	if had, ok := q.due[key]; ok {
		if !at.Before(had.at) {
			return
		}
		had.timer.Stop()
	}
	q.due[key] = alarm{at, q.clock.AfterFunc(d, func() {
		q.mu.Lock()
		if q.due[key].at.Equal(at) {
			delete(q.due, key)
		}
		q.mu.Unlock()
		q.q.Add(key)
	})}
}

// Run runs this many workers until ctx is done and all have returned. Call it once.
func (q *Queue) Run(ctx context.Context, workers int, work Work) {
	stop := context.AfterFunc(ctx, q.q.ShutDown)
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for q.next(ctx, work) {
			}
		})
	}
	wg.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.due {
		a.timer.Stop()
	}
}

func (q *Queue) next(ctx context.Context, work Work) bool {
	key, closed := q.q.Get()
	if closed {
		return false
	}
	defer q.q.Done(key)
	if ctx.Err() != nil {
		return true
	}
	again, err := q.guarded(ctx, key, work)
	switch {
	case err != nil && ctx.Err() == nil:
		d := q.backoff.When(key)
		if !apierrors.IsConflict(err) {
			q.log.Warn(q.name+" failed", "object", key, "error", err, "retry", d)
		}
		q.After(key, d)
	case err == nil:
		q.backoff.Forget(key)
		if again > 0 {
			q.After(key, again)
		}
	}
	return true
}

// guarded turns a panic over one object into a retry after mostBackoff: the others go on.
func (q *Queue) guarded(ctx context.Context, key string, work Work) (again time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			q.log.Error(q.name+" panicked", "object", key, "panic", r, "stack", string(debug.Stack()))
			again, err = mostBackoff, nil
		}
	}()
	return work(ctx, key)
}
