package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dial returns a host with a session to a guest.
func dial(t *testing.T, serve Handler) *Conn {
	t.Helper()
	a, b := net.Pipe()
	go func() { _ = ServeGuest(b, serve) }()
	host, err := Dial(a, false)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = host.Serve() }()
	t.Cleanup(func() { _ = host.Close() })
	return host
}

func TestCall(t *testing.T) {
	host := dial(t, func(_ *Stream, kind string, request json.RawMessage) (any, error) {
		if kind == "no" {
			return nil, errors.New("not here")
		}
		return kind + string(request), nil
	})
	big := strings.Repeat("x", 300_000) // more than a frame and more than the window
	var got string
	if err := host.Call(t.Context(), "echo", big, &got); err != nil || got != `echo"`+big+`"` {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	var remote *RemoteError
	if err := host.Call(t.Context(), "no", nil, nil); !errors.As(err, &remote) || remote.Message != "not here" {
		t.Fatal(err)
	}
}

func TestStreamCarriesBytesAndMessages(t *testing.T) {
	const size = 3 * Window
	host := dial(t, func(s *Stream, _ string, _ json.RawMessage) (any, error) {
		for total := 0; ; {
			it, err := s.Receive()
			if err != nil {
				return nil, err
			}
			if it.End {
				return total, s.SendMessage("bye")
			}
			total += len(it.Data)
			if err := s.Send(Stdout, it.Data); err != nil {
				return nil, err
			}
		}
	})
	s, err := host.Open("cat", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = s.Writer(Stdin).Write(bytes.Repeat([]byte("y"), size))
		_ = s.End(Stdin)
	}()
	total, message := 0, ""
	for {
		it, err := s.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		total += len(it.Data)
		message += string(it.Message)
	}
	var counted int
	if err := s.Reply(&counted); err != nil || counted != size || total != size || message != `"bye"` {
		t.Fatal(err, counted, total, message)
	}
}

// A reader that takes nothing blocks its own sender and no other.
func TestSlowStreamDoesNotBlockOthers(t *testing.T) {
	host := dial(t, func(s *Stream, kind string, _ json.RawMessage) (any, error) {
		if kind == "flood" {
			for {
				if err := s.Send(Stdout, make([]byte, 10_000)); err != nil {
					return nil, err
				}
			}
		}
		return "pong", nil
	})
	flood, err := host.Open("flood", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := host.Call(t.Context(), "ping", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	flood.mu.Lock()
	held := flood.held
	flood.mu.Unlock()
	if held > Window {
		t.Errorf("the host holds %d bytes for a stream nobody reads", held)
	}
	flood.Close()
	if err := host.Call(t.Context(), "ping", nil, nil); err != nil {
		t.Fatal(err)
	}
}

// Whatever is left of the window, what is sent with SendWhole arrives as one item.
func TestWhatIsSentWholeArrivesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 200
		const n = 3 * Window / (size + frameCost)
		host := dial(t, func(s *Stream, _ string, _ json.RawMessage) (any, error) {
			if err := s.SendWhole(Stdout, make([]byte, MaxPayload)); err == nil {
				return nil, errors.New("more than a frame takes was sent")
			}
			for range n {
				if err := s.SendWhole(Stdout, make([]byte, size)); err != nil {
					return nil, err
				}
			}
			return n, nil
		})
		s, err := host.Open("records", nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the guest has sent what the window takes
		for i := range n {
			it, err := s.Receive()
			if err != nil || len(it.Data) != size {
				t.Fatalf("item %d has %d bytes, want %d; %v", i, len(it.Data), size, err)
			}
		}
		if err := s.Wait(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestCallEndsWithContext(t *testing.T) {
	given := make(chan error, 1)
	host := dial(t, func(s *Stream, kind string, _ json.RawMessage) (any, error) {
		<-s.Done()
		_, err := s.Receive()
		given <- err
		return nil, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := host.Call(ctx, "wait", nil, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-given; !errors.Is(err, errReset) {
		t.Errorf("the guest heard %v", err)
	}
}

// A host that was killed has left half a frame. The next host can start a session, and does not mistake old bytes for
// its own.
func TestSessionAfterLeftovers(t *testing.T) {
	a, b := socketPair(t)
	half := appendFrame(nil, frame{kind: frameData, stream: 7, payload: make([]byte, 1000)})
	_, _ = a.Write(append([]byte("NODELES"), half[:500]...))
	_, _ = b.Write([]byte("old log lines NODELESS and more of them, as if it were a preamble"))
	go func() {
		_ = ServeGuest(b, func(*Stream, string, json.RawMessage) (any, error) { return "fine", nil })
	}()
	host, err := Dial(a, true)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = host.Serve() }()
	var got string
	if err := host.Call(t.Context(), "x", nil, &got); err != nil || got != "fine" {
		t.Fatal(got, err)
	}
}

// A host ends and another takes its place on the same connection. The guest has not seen an end of file, and responds
// to the new host.
func TestNextHost(t *testing.T) {
	a, b := socketPair(t)
	go func() {
		_ = ServeGuest(b, func(_ *Stream, kind string, _ json.RawMessage) (any, error) { return kind, nil })
	}()
	for _, kind := range []string{"first", "second"} {
		host, err := Dial(struct {
			io.ReadWriter
			io.Closer
		}{a, io.NopCloser(nil)}, false)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- host.Serve() }()
		var got string
		if err := host.Call(t.Context(), kind, nil, &got); err != nil || got != kind {
			t.Fatal(got, err)
		}
		_ = a.SetReadDeadline(time.Unix(1, 0)) // the host's reader ends, the connection stays
		<-served
		_ = a.SetReadDeadline(time.Time{})
	}
}

// socketPair returns a connection with buffers, like that to a virtual machine.
func socketPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestProtocolErrors(t *testing.T) {
	message := func(kind frameType, flags uint8, payload string) []byte {
		return appendFrame(nil, frame{kind: kind, flags: flags, stream: 1, payload: []byte(payload)})
	}
	flood := bytes.Repeat(message(frameData, 0, "\x01x"), Window/frameCost)
	long := bytes.Repeat(message(frameMessage, flagMore, strings.Repeat(" ", MaxPayload)), maxFromGuest/MaxPayload+1)
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"garbage":           {[]byte(strings.Repeat("garbage", 20)), "begins with"},
		"unknown type":      {message(99, 0, ""), "type 99"},
		"unknown flags":     {message(frameData, 4, "x"), "flags"},
		"giant frame":       {[]byte{frameMagic, byte(frameData), 0, 0, 0, 0, 0, 1, 255, 255, 255, 255}, "4294967295 bytes"},
		"guest opens":       {message(frameOpen, 0, "{}"), "opens a stream"},
		"no channel":        {message(frameData, 0, ""), "without a channel"},
		"too many items":    {flood, "before they are taken"},
		"message too long":  {long, "message of more than"},
		"empty part":        {message(frameMessage, flagMore, ""), "empty part of a message"},
		"message not JSON":  {message(frameMessage, 0, "{"), "not JSON"},
		"reply not a reply": {message(frameReply, 0, "[1]"), "reply that cannot be read"},
		"wide window":       {message(frameWindow, 0, "\x7f\xff\xff\xff"), "window larger"},
		// 4,096 bytes, though none were sent
		"window too wide":    {message(frameWindow, 0, "\x00\x00\x10\x00"), "window larger"},
		"window of two byte": {message(frameWindow, 0, "xx"), "window update"},
	} {
		t.Run(name, func(t *testing.T) {
			err := hostReads(t, c.bytes)
			var protocol *ProtocolError
			if !errors.As(err, &protocol) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// hostReads returns how the session of a host with one open stream ends when a guest replies to the preamble and then
// writes some bytes.
func hostReads(t testing.TB, guest []byte) error {
	a, b := net.Pipe()
	defer func() { _ = b.Close() }()
	go func() {
		p := make([]byte, preambleSize)
		if _, err := io.ReadFull(b, p); err != nil {
			return
		}
		_, _ = b.Write(p)
		go func() { _, _ = io.Copy(io.Discard, b) }()
		_, _ = b.Write(guest)
		_ = b.Close()
	}()
	host, err := Dial(a, false)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	if _, err := host.Open("logs", nil); err != nil && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	go func() { served <- host.Serve() }()
	return <-served
}

// Whatever a guest writes, the host's session ends with an error and not with a crash, a hang or unlimited memory.
func FuzzHostileGuest(f *testing.F) {
	f.Add([]byte("garbage"))
	f.Add(appendFrame(nil, frame{kind: frameMessage, stream: 1, payload: []byte(`{"a":1}`)}))
	f.Add(appendFrame(nil, frame{kind: frameReply, stream: 1, payload: []byte(`{"Error":"x"}`)}))
	f.Add(appendFrame(appendFrame(nil, frame{kind: frameMessage, flags: 1, stream: 1, payload: []byte(`[`)}),
		frame{kind: frameReset, stream: 1}))
	f.Fuzz(func(t *testing.T, guest []byte) {
		if err := hostReads(t, guest); err == nil {
			t.Error("the session ended without a cause")
		}
	})
}
