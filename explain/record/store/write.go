package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// write writes queued entries until ctx is done, gathering them first so that it writes less often.
func (r *Recorder) write(ctx context.Context) {
	pause := gatherTime
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		for left := true; left; {
			if !r.sleep(ctx, pause) {
				return
			}
			var err error
			if left, err = r.flush(ctx); err == nil {
				pause = gatherTime
				continue
			}
			left = true
			if !errors.Is(err, errMoved) && ctx.Err() == nil {
				r.o.Log.Warn("decisions could not be written; it is tried again", "in", pause, "error", err)
				pause = min(2*pause, maxPause)
			}
		}
	}
}

// flush writes queued entries and reports whether there are more.
func (r *Recorder) flush(ctx context.Context) (bool, error) {
	now := r.o.Clock.Now()
	r.mu.Lock()
	due, more := r.tracker.Due(now)
	r.add(due)
	if r.lost > 0 && len(r.pending) < maxPending {
		r.pending = append(r.pending,
			record.NewLost(fmt.Sprintf("%d cycles or entries were not recorded: they came faster than they could be written",
				r.lost), now))
		r.lost = 0
	}
	batch := r.pending[:min(len(r.pending), batchSize)]
	r.mu.Unlock()
	if len(batch) == 0 {
		return more, nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	done, err := r.store.append(call, batch)
	r.counted(done, err)
	if errors.Is(err, errMoved) {
		if err := r.store.load(call, func([]record.Entry) {}, r.damaged); err != nil {
			return true, err
		}
		return true, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append([]record.Entry(nil), r.pending[done:]...)
	return more || len(r.pending) > 0, err
}

// counted updates the metrics after a write.
func (r *Recorder) counted(done int, err error) {
	switch {
	case errors.Is(err, errMoved):
		r.o.Metrics.RecordWrite("moved")
	case err != nil:
		r.o.Metrics.RecordWrite("failed")
	default:
		r.o.Metrics.RecordWrite("done")
		r.o.Metrics.RecordsWritten(done)
	}
}

// sleep waits for d and reports whether ctx is still alive.
func (r *Recorder) sleep(ctx context.Context, d time.Duration) bool {
	return clock.Sleep(ctx, r.o.Clock, d) == nil
}
