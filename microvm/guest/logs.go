package guest

import (
	"bufio"
	"errors"
	"io"
	"sort"
	"sync"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// maxLogBytes bounds what the guest buffers while the host is disconnected or slow. At this limit, writes of
// containers block, as with a full pipe. Nothing is lost while a host process restarts.
const maxLogBytes = 1 << 20

const recordCost = 64 // bytes of a record, besides its line

// logs holds what the containers have written until the host has stored it.
type logs struct {
	mu      sync.Mutex
	changed *sync.Cond
	records []wire.LogRecord
	bytes   int
	last    int64 // Nanos of the newest record
}

func newLogs() *logs {
	l := &logs{}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// add appends a record and sets its time. It blocks while there is no room.
func (l *logs) add(r wire.LogRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.bytes > maxLogBytes {
		l.changed.Wait()
	}
	r.Nanos = max(l.last+1, time.Now().UnixNano())
	l.last = r.Nanos
	l.records = append(l.records, r)
	l.bytes += len(r.Line) + recordCost
	l.changed.Broadcast()
}

// taken drops the records that the host has stored.
func (l *logs) taken(through int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.records) && l.records[n].Nanos <= through {
		l.bytes -= len(l.records[n].Line) + recordCost
		n++
	}
	clear(l.records[:n]) // frees the lines before the slice grows again
	l.records = l.records[n:]
	l.changed.Broadcast()
}

// next waits for the first record after a time. It returns false when the stream has ended.
func (l *logs) next(after int64, done <-chan struct{}) (wire.LogRecord, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		select {
		case <-done:
			return wire.LogRecord{}, false
		default:
		}
		if i := sort.Search(len(l.records), func(i int) bool { return l.records[i].Nanos > after }); i < len(l.records) {
			return l.records[i], true
		}
		l.changed.Wait()
	}
}

// newest returns the time of the newest record.
func (l *logs) newest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// flush waits until the host has stored all records up to a time. It does not wait for later ones, since some
// containers never pause.
func (l *logs) flush(through int64, done <-chan struct{}) error {
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-done:
			l.wake()
		case <-stop:
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.records) > 0 && l.records[0].Nanos <= through {
		select {
		case <-done:
			return errors.New("the stream was closed")
		default:
			l.changed.Wait()
		}
	}
	return nil
}

func (l *logs) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}

// follow sends records to the host until the stream ends.
func (l *logs) follow(s *wire.Stream, after int64) error {
	l.taken(after)
	go func() {
		for {
			it, err := s.Receive()
			if err != nil {
				l.wake()
				return
			}
			if taken, err := wire.Message[wire.LogsTaken](it); err == nil {
				l.taken(taken.Through)
			}
		}
	}()
	for {
		r, ok := l.next(after, s.Done())
		if !ok {
			return errors.New("the stream was closed")
		}
		if err := s.SendWhole(r.Stream, r.Encode()); err != nil {
			return err
		}
		after = r.Nanos
	}
}

// lines reads r to its end, splits it into lines of at most MaxLogLine bytes and passes each to add.
func lines(r io.Reader, add func(line []byte, partial bool)) {
	b := bufio.NewReaderSize(r, wire.MaxLogLine)
	for {
		line, err := b.ReadSlice('\n')
		switch {
		case err == nil:
			add(line[:len(line)-1], false)
		case errors.Is(err, bufio.ErrBufferFull):
			add(line, true)
		default:
			if len(line) > 0 {
				add(line, false)
			}
			return
		}
	}
}
