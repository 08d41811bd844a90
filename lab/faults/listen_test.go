package faults

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"time"
)

// stream is the body of a watch whose events may be late, come twice, or be the last.
type stream struct {
	d       *door
	body    io.ReadCloser
	lines   *bufio.Reader
	ctx     context.Context
	what    string
	pending bytes.Buffer
	over    bool
}

func (d *door) listen(body io.ReadCloser, ctx context.Context, what string) io.ReadCloser {
	return &stream{d: d, body: body, lines: bufio.NewReader(body), ctx: ctx, what: what}
}

// Read returns what has arrived so far, or waits for the next event.
func (s *stream) Read(p []byte) (int, error) {
	for s.pending.Len() == 0 {
		if s.over {
			return 0, io.EOF
		}
		line, err := s.lines.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if err := s.hear(line); err != nil {
			return 0, err
		}
	}
	return s.pending.Read(p)
}

const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}}` + "\n"

// hear handles one event.
func (s *stream) hear(line []byte) error {
	in := s.d.in
	in.mu.Lock()
	dead, off := s.d.life.dead, in.off
	key := s.what + " event"
	in.by[key]++
	nth := in.by[key]
	in.mu.Unlock()
	if dead {
		return errDead
	}
	if off || in.chance(key, nth)%100 >= in.percent {
		s.pending.Write(line)
		return nil
	}
	sorts := []string{"late event", "late event", "event twice", "watch lost", "watch expired"}
	sort := sorts[in.chance("sort", key, nth)%uint64(len(sorts))]
	in.mu.Lock()
	in.faults[sort]++
	in.say("%s: %s", s.what, sort)
	in.mu.Unlock()
	switch sort {
	case "late event":
		if err := wait(s.ctx, time.Duration(in.chance("delay", key, nth)%8000)*time.Millisecond); err != nil {
			return err
		}
		s.pending.Write(line)
	case "event twice":
		s.pending.Write(line)
		s.pending.Write(line)
	case "watch lost": // the event is lost, too: the next watch begins before it
		s.over = true
	case "watch expired":
		s.pending.WriteString(expired)
		s.over = true
	}
	return nil
}

// Close ends the watch.
func (s *stream) Close() error { return s.body.Close() }
