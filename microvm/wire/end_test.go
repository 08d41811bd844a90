package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// soon fails the test if nothing arrives within a minute.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
		panic("not reached")
	}
}

// A stream that is closed ends on the other side, too.
func TestCloseResetsOtherSide(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	host := dial(t, func(s *Stream, _ string, _ json.RawMessage) (any, error) {
		close(began)
		_, err := s.Receive()
		ended <- err
		return nil, nil
	})
	s, err := host.Open("logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "the stream begins", began)
	s.Close()
	if err := soon(t, "the guest hears of the end", ended); !errors.Is(err, errReset) {
		t.Errorf("the guest heard %v", err)
	}
	if _, err := s.Receive(); !errors.Is(err, ErrClosed) {
		t.Errorf("the host receives %v", err)
	}
}

// What is in transit when a stream is closed is dropped.
func TestClosedStreamKeepsNothing(t *testing.T) {
	s := newStream(newConn(&recorder{}, nil, nil), 1)
	s.Close()
	err := errors.Join(s.takeData(frame{kind: frameData, payload: []byte("\x01late")}),
		s.takeMessage(frame{kind: frameMessage, payload: []byte(`"late"`)}),
		s.takeMessage(frame{kind: frameMessage, flags: flagMore, payload: []byte(`"la`)}))
	if err != nil || len(s.queue) > 0 || s.held > 0 || len(s.partial.bytes) > 0 {
		t.Errorf("%v, %d items, %d bytes, a part of %d", err, len(s.queue), s.held, len(s.partial.bytes))
	}
}

// A guest ends sessions with hosts that break the protocol, and waits for the next one.
func TestHostCannotReply(t *testing.T) {
	guest := newConn(&recorder{}, nil,
		func(s *Stream, _ string, _ json.RawMessage) (any, error) { <-s.Done(); return nil, nil })
	defer func() { _ = guest.Close() }()
	if err := guest.take(frame{kind: frameOpen, stream: 1, payload: []byte(`{"Kind":"x"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := guest.take(frame{kind: frameReply, stream: 1, payload: []byte(`{}`)}); err == nil ||
		!strings.Contains(err.Error(), "a host replies") {
		t.Errorf("got %v", err)
	}
}

// The error for an agent of another release says what to do.
func TestOtherVersion(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _ = b.Close() }()
	go func() {
		p := make([]byte, preambleSize)
		if _, err := io.ReadFull(b, p); err == nil {
			binary.BigEndian.PutUint16(p[len(preambleMagic):], Version+1)
			_, _ = b.Write(p)
		}
	}()
	if _, err := Dial(a, false); err == nil || !strings.Contains(err.Error(), "speaks version 2") ||
		!strings.Contains(err.Error(), "stop the pod") {
		t.Errorf("got %v", err)
	}
}

func TestLogRecordBounds(t *testing.T) {
	record := func(change func(b []byte) []byte) []byte {
		return change(LogRecord{Nanos: 7, Container: 1, Restart: 2, Line: make([]byte, MaxLogLine)}.Encode())
	}
	same := func(b []byte) []byte { return b }
	for idea, c := range map[string]struct {
		channel byte
		data    []byte
		ok      bool
	}{
		"the longest":        {Stdout, record(same), true},
		"longer":             {Stdout, record(func(b []byte) []byte { return append(b, 'x') }), false},
		"without a line":     {Stderr, record(func(b []byte) []byte { return b[:logHeader] }), true},
		"cut off":            {Stderr, record(func(b []byte) []byte { return b[:logHeader-1] }), false},
		"on another channel": {Stdin, record(same), false},
		"a part of a line":   {Stdout, record(func(b []byte) []byte { b[14] = 1; return b }), true},
		"neither":            {Stdout, record(func(b []byte) []byte { b[14] = 2; return b }), false},
	} {
		r, err := DecodeLogRecord(c.channel, c.data)
		if (err == nil) != c.ok || c.ok &&
			(r.Nanos != 7 || r.Container != 1 || r.Restart != 2 || r.Stream != c.channel || r.Partial != (c.data[14] == 1) ||
				len(r.Line) != len(c.data)-logHeader) {
			t.Errorf("%s: %v, %+v", idea, err, r.Nanos)
		}
	}
}

// A guest that no longer reads keeps no caller beyond its time.
func TestCallOfGuestThatDoesNotRead(t *testing.T) {
	a, b := net.Pipe()
	go func() { _, _ = accept(b, bufio.NewReaderSize(b, MaxPayload), nil) }()
	host, err := Dial(a, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = host.Close(), b.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // the second one waits for the first one's frame
		ended := make(chan error, 1)
		go func() { ended <- host.Call(ctx, "ping", nil, nil) }()
		if err := soon(t, "the call ends", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
	}
}
