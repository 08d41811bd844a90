package logs

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

// Bounds of what a lane has in memory at once.
const (
	batchRecords = 1000
	batchBytes   = 512 << 10
)

// lane carries a pod's lines to one output. What it has read and not sent is at most one batch.
type lane struct {
	route  *Route
	pipe   *pipeline.Pipeline
	out    *pipeline.Output
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	last   chan struct{} // closed: nothing more will be logged
	once   sync.Once     // of closing it

	mu   sync.Mutex
	sent map[string]int64 // by container

	// of run
	tails   map[string]Tail
	batch   []*pipeline.Record
	taken   map[string]int64 // as sent will be when the batch is
	tries   int              // of the batch
	failing bool
	refused int64 // lines that were given up
	told    int64 // lost lines, of those told
	toldAt  time.Time
	savedAt time.Time
	dirty   bool
}

func newLane(t *Route, p *pipeline.Pipeline, out *pipeline.Output, from map[string]int64) *lane {
	l := &lane{route: t, pipe: p, out: out, done: make(chan struct{}), last: make(chan struct{}), sent: map[string]int64{}, tails: map[string]Tail{}}
	maps.Copy(l.sent, from)
	l.taken = maps.Clone(l.sent)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// drain has the lane end when it has sent all there is.
func (l *lane) drain() { l.once.Do(func() { close(l.last) }) }

// position is how far it is.
func (l *lane) position() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.sent)
}

func (l *lane) run() {
	defer close(l.done)
	defer l.cancel()
	defer func() {
		for _, tail := range l.tails {
			tail.Close()
		}
	}()
	o := &l.route.router.o
	again := o.Again
	for l.ctx.Err() == nil {
		logged, draining := l.route.pod.Log.Logged(), l.draining()
		if err := l.fill(); err != nil {
			l.fail(err)
		} else if len(l.batch) == 0 {
			l.advance()
			l.tellLost(draining)
			if draining || !l.idle(logged) {
				return
			}
			continue
		} else if err := l.send(); err == nil {
			again = o.Again
			continue
		} else {
			l.fail(err)
		}
		l.tellLost(false)
		if !l.pause(again) {
			break
		}
		again = min(2*again, o.MostAgain)
	}
	if l.draining() {
		l.refused += l.left()
	}
	l.tellLost(true)
}

// left is how many lines will not be sent any more.
func (l *lane) left() int64 {
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

func (l *lane) draining() bool {
	select {
	case <-l.last:
		return true
	default:
		return false
	}
}

// idle waits until there is something to send, and a moment longer for more of it; false if the lane is to end.
func (l *lane) idle(logged <-chan struct{}) bool {
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
	timer := time.NewTimer(o.Flush)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.last:
	case <-l.ctx.Done():
	}
	return true
}

func (l *lane) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// fill reads lines until there is a batch, or nothing more.
func (l *lane) fill() error {
	if len(l.batch) > 0 {
		return nil // it waits to be sent again
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
			if r := l.pipe.Line(from, time.Unix(0, line.Nanos), validText(line.String())); r != nil && l.out.Matches(r.Tag) {
				l.batch, bytes = append(l.batch, r), bytes+len(line.Text)
			}
		}
	}
	return nil
}

// advance notes that all that was taken has been seen to.
func (l *lane) advance() {
	l.mu.Lock()
	if !maps.Equal(l.sent, l.taken) {
		l.sent, l.dirty = maps.Clone(l.taken), true
	}
	l.mu.Unlock()
	if l.dirty && time.Since(l.savedAt) >= l.route.router.o.Save {
		l.save()
	}
}

func (l *lane) save() {
	l.route.save()
	l.savedAt, l.dirty = time.Now(), false
}
