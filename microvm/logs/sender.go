package logs

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

// Limits of what a sender has in memory at once.
const (
	batchRecords = 1000
	batchBytes   = 512 << 10
)

// sender carries a pod's lines to one output, a batch at a time: it reads lines (fill), sends them until the output
// has accepted or refused each (send), and then records its position (advance). Only the batch is in memory.
type sender struct {
	route  *Route
	pipe   *pipeline.Pipeline
	out    *pipeline.Output
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	last   chan struct{} // closed when nothing more will be logged
	once   sync.Once     // of closing last
	final  bool          // set before last is closed: what remains unsent is lost

	mu   sync.Mutex
	sent map[string]int64 // by container

	// Used by run only.
	tails      map[string]Tail
	batch      []*pipeline.Record
	taken      map[string]int64 // the value of sent after the batch
	tries      int              // to send the batch
	failure    string           // that was reported last; "" while lines are accepted
	failedAt   time.Time        // when it was reported
	refused    int64            // lines that were given up
	reported   int64            // lost lines that were reported
	reportedAt time.Time
	savedAt    time.Time
	dirty      bool
}

func newSender(t *Route, p *pipeline.Pipeline, out *pipeline.Output, from map[string]int64) *sender {
	l := &sender{
		route: t, pipe: p, out: out, done: make(chan struct{}), last: make(chan struct{}), sent: map[string]int64{},
		taken: map[string]int64{}, tails: map[string]Tail{},
	}
	maps.Copy(l.sent, from)
	maps.Copy(l.taken, from)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// drain makes the sender end once it has sent everything. If it is final, no other sender continues.
func (l *sender) drain(final bool) {
	l.once.Do(func() {
		l.final = final
		close(l.last)
	})
}

// position returns the time of the last line dealt with, by container.
func (l *sender) position() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.sent)
}

func (l *sender) run() {
	defer close(l.done)
	defer l.cancel()
	defer func() {
		for _, tail := range l.tails {
			tail.Close()
		}
	}()
	o := &l.route.router.o
	retry := o.Retry
	for l.ctx.Err() == nil {
		logged, draining := l.route.pod.Log.Logged(), l.draining()
		if err := l.fill(); err != nil {
			l.fail(err)
		} else if len(l.batch) == 0 {
			l.advance()
			l.reportLost(draining)
			if draining || !l.idle(logged) {
				return
			}
			continue
		} else if err := l.send(); err == nil {
			retry = o.Retry
			continue
		} else {
			l.fail(err)
		}
		l.reportLost(false)
		if clock.Sleep(l.ctx, clock.Real{}, retry) != nil {
			break
		}
		retry = min(2*retry, o.MaxRetry)
	}
	if l.draining() && l.final {
		l.refused += l.left()
	}
	l.reportLost(true)
}

// left returns the number of lines that remain unsent.
func (l *sender) left() int64 {
	n := int64(len(l.batch))
	for _, tail := range l.tails {
		for {
			if _, ok, err := tail.Next(); !ok || err != nil {
				break
			}
			n++
		}
	}
	return n
}

func (l *sender) draining() bool {
	select {
	case <-l.last:
		return true
	default:
		return false
	}
}

// idle waits until there is something to send, and then briefly for more. It returns false if the sender must end.
func (l *sender) idle(logged <-chan struct{}) bool {
	o := &l.route.router.o
	save := time.NewTimer(o.Save)
	defer save.Stop()
	for waiting := true; waiting; {
		select {
		case <-logged:
			waiting = false
		case <-l.last:
			return true
		case <-save.C:
			if l.dirty {
				l.save()
			}
		case <-l.ctx.Done():
			return false
		}
	}
	_ = clock.SleepOr(l.ctx, clock.Real{}, o.Flush, l.last)
	return true
}

// fill reads lines until the batch is full or there are no more.
func (l *sender) fill() error {
	if len(l.batch) > 0 {
		return nil // retry this batch first
	}
	bytes := 0
	for _, container := range l.route.pod.Log.Containers() {
		from := l.route.pod.Source(container)
		if from == nil {
			continue
		}
		tail := l.tails[container]
		if tail == nil {
			var err error
			if tail, err = l.route.pod.Log.Tail(container, l.taken[container]); err != nil {
				return err
			}
			l.tails[container] = tail
		}
		for len(l.batch) < batchRecords && bytes < batchBytes {
			line, ok, err := tail.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			l.taken[container] = line.Nanos
			r := l.pipe.Line(from, time.Unix(0, line.Nanos), strings.ToValidUTF8(line.String(), "\uFFFD"))
			if r != nil && l.out.Matches(r.Tag) {
				l.batch, bytes = append(l.batch, r), bytes+len(line.Text)
			}
		}
	}
	return nil
}

// advance records that all lines taken have been accepted, refused or dropped.
func (l *sender) advance() {
	l.mu.Lock()
	if !maps.Equal(l.sent, l.taken) {
		l.sent, l.dirty = maps.Clone(l.taken), true
	}
	l.mu.Unlock()
	if l.dirty && time.Since(l.savedAt) >= l.route.router.o.Save {
		l.save()
	}
}

func (l *sender) save() {
	l.route.save()
	l.savedAt, l.dirty = time.Now(), false
}

// reportEvery is the minimum interval between reports of lost lines, and between reports of different failures.
const reportEvery = time.Minute

// send sends the batch and keeps the records to send again.
func (l *sender) send() error {
	ctx, cancel := lingering(l.ctx, linger)
	again, refused, err := l.route.router.deliver(ctx, l.out, l.batch)
	cancel()
	l.refused += int64(refused)
	l.batch = again
	if err != nil {
		if l.tries++; l.out.Retries < 0 || l.tries <= l.out.Retries {
			return err
		}
		l.refused += int64(len(l.batch))
		l.batch = nil
	}
	l.tries = 0
	if err == nil && l.failure != "" {
		l.failure = ""
		l.route.pod.Report(false, "LogOutputRecovered", fmt.Sprintf("output %s accepts lines again", l.out))
		l.reportLost(true)
	}
	l.advance()
	if refused > 0 || err != nil {
		l.reportLost(false)
	}
	return nil
}

// linger is how long an ending sender waits for a request in progress: if it gave up at once, the same records would
// be sent again.
const linger = 2 * time.Second

// lingering returns a context that ends d after its parent.
func lingering(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() { time.AfterFunc(d, cancel) })
	return ctx, func() { stop(); cancel() }
}

// fail reports that the output accepts nothing: once per reason, and again after reportEvery if the reason changes.
func (l *sender) fail(err error) {
	reason := err.Error()
	if l.ctx.Err() != nil || reason == l.failure || l.failure != "" && time.Since(l.failedAt) < reportEvery {
		return
	}
	l.failure, l.failedAt = reason, time.Now()
	l.route.pod.Report(true, "LogOutputFailed", fmt.Sprintf("output %s to %s: %s; it is tried again, and until "+
		"then lines are kept only in the pod's stored log (%s)", l.out, l.out.To, reason, stored))
}

// stored is how much of a container's log the host keeps.
const stored = "up to 20 MiB of each container's last two runs"

// reportLost reports how many lines did not reach the output: at most once per reportEvery, or at once if end is set.
func (l *sender) reportLost(end bool) {
	lost := l.refused
	for _, tail := range l.tails {
		lost += tail.Lost()
	}
	if lost == l.reported || !end && time.Since(l.reportedAt) < reportEvery {
		return
	}
	l.reported, l.reportedAt = lost, time.Now()
	l.route.pod.Report(true, "LogLinesLost", fmt.Sprintf("%d lines did not reach output %s: it refused them, or they "+
		"were deleted from the stored log before they could be sent", lost, l.out))
}
