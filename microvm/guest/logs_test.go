package guest

import (
	"bytes"
	"encoding/json"
	"net"
	"testing"

	"github.com/nodeless/nodeless/microvm/wire"
)

// A container writes without a pause, more than may be in transit to a host that stores each line before the next.
// Every line arrives, whole and in order.
func TestAFloodOfLogsArrivesWhole(t *testing.T) {
	const n = 10_000
	line := bytes.Repeat([]byte("x"), 200)
	l := newLogs()
	go func() {
		for range n {
			l.add(wire.LogRecord{Stream: wire.Stdout, Line: line})
		}
	}()
	a, b := net.Pipe()
	go func() {
		_ = wire.ServeGuest(b, func(s *wire.Stream, _ string, _ json.RawMessage) (any, error) { return nil, l.follow(s, 0) })
	}()
	host, err := wire.Dial(a, false)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = host.Serve() }()
	defer func() { _ = host.Close() }()
	s, err := host.Open(wire.KindLogs, wire.LogsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for i := range n {
		it, err := s.Receive()
		if err != nil {
			t.Fatal(err)
		}
		r, err := wire.DecodeLogRecord(it.Channel, it.Data)
		if err != nil || !bytes.Equal(r.Line, line) || r.Nanos <= last {
			t.Fatalf("record %d: %+v after %d, %v", i, r, last, err)
		}
		if last = r.Nanos; i > n/10 { // the host is slow for the first tenth
			err = s.SendMessage(wire.LogsTaken{Through: last})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.flush(last, nil); err != nil {
		t.Error(err)
	}
}
