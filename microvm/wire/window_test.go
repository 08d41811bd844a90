package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// frames encodes a message, reply or opening of stream 1 in parts of the given size.
func frames(kind frameType, text string, part int) []byte {
	var b []byte
	for {
		f := frame{kind: kind, stream: 1, payload: []byte(text[:min(part, len(text))])}
		if text = text[len(f.payload):]; text != "" {
			f.flags = flagMore
		}
		if b = appendFrame(b, f); text == "" {
			return b
		}
	}
}

// text returns a JSON string of n bytes.
func text(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

// filling returns data of a kind that uses n bytes of the window of an unread stream.
func filling(kind string, n int) []byte {
	data := func(n int) []byte { // of one or more frames, which use n together
		var b []byte
		for n > 0 {
			cost := min(n, MaxPayload-1+frameCost)
			if left := n - cost; left > 0 && left < frameCost {
				cost -= frameCost
			}
			b = appendFrame(b, frame{kind: frameData, stream: 1, payload: make([]byte, 1+cost-frameCost)})
			n -= cost
		}
		return b
	}
	end := appendFrame(nil, frame{kind: frameEnd, stream: 1, payload: []byte{Stdout}})
	const whole = 50_000
	switch kind {
	case "data":
		return data(n)
	case "ends":
		return append(bytes.Repeat(end, n/frameCost-1), data(frameCost+n%frameCost)...)
	case "messages of one frame":
		many := (n - 3*frameCost) / (whole + frameCost)
		rest := n - many*(whole+frameCost)
		return append(bytes.Repeat(frames(frameMessage, text(whole), whole), many),
			frames(frameMessage, text(rest-frameCost), rest)...)
	case "messages of many frames":
		many := (n - 3*frameCost) / (whole + 10*frameCost)
		rest := n - many*(whole+10*frameCost)
		return append(bytes.Repeat(frames(frameMessage, text(whole), whole/10), many),
			frames(frameMessage, text(rest-frameCost), rest)...)
	case "a message and data":
		return append(frames(frameMessage, text(whole), 100), data(n-whole-whole/100*frameCost)...)
	}
	panic(kind)
}

// hostTakes returns why the session of a host with one open, unread stream ends when a guest has sent some bytes:
// io.EOF if the guest has kept to the protocol.
func hostTakes(t *testing.T, guest []byte) error {
	t.Helper()
	return hostTakesOf(t, KindLogs, guest)
}

// hostTakesOf is hostTakes for a stream of any kind.
func hostTakesOf(t *testing.T, kind string, guest []byte) error {
	t.Helper()
	c := newConn(&recorder{}, bufio.NewReader(bytes.NewReader(guest)), nil)
	if _, err := c.Open(kind, nil); err != nil {
		t.Fatal(err)
	}
	return c.Serve()
}

// A guest that exceeds its window loses its session with the first byte too many, whatever the bytes are.
func TestWindowIsExact(t *testing.T) {
	for _, kind := range []string{
		"data", "ends", "messages of one frame", "messages of many frames",
		"a message and data",
	} {
		for _, over := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("%s %+d", kind, over), func(t *testing.T) {
				err := hostTakes(t, filling(kind, Window+over))
				var protocol *ProtocolError
				broke := errors.As(err, &protocol) && strings.Contains(err.Error(), "before they are taken")
				if broke != (over > 0) || !broke && !errors.Is(err, io.EOF) {
					t.Errorf("the session ended with %v", err)
				}
			})
		}
	}
}

// The window is the same for streams of every kind.
func TestEveryKindOfStreamHasTheWindow(t *testing.T) {
	for _, kind := range []string{
		KindHello, KindStart, KindWatch, KindLogs, KindFlush, KindExec, KindAttach, KindConnect, KindStats, KindFiles, KindAdd,
		KindResize, KindStop, KindPing,
	} {
		for over, want := range map[int]bool{0: false, 1: true} {
			err := hostTakesOf(t, kind, filling("data", Window+over))
			if broke := err != nil && strings.Contains(err.Error(), "before they are taken"); broke != want {
				t.Errorf("%s: %d bytes over the window: %v", kind, over, err)
			}
		}
	}
}

// A guest sends large messages, each with a last frame of one byte, which are never received: the host holds one of
// them and the beginning of another.
func TestUntakenMessagesAreLimited(t *testing.T) {
	one := frames(frameMessage, text(maxFromGuest-MaxPayload+1), MaxPayload)
	s := newStream(newConn(&recorder{}, nil, nil), 1)
	var err error
	for n := 0; err == nil; n++ {
		if n == 4000 {
			t.Fatalf("%d messages were taken in", n)
		}
		for r := bytes.NewReader(one); r.Len() > 0 && err == nil; {
			f, readErr := readFrame(r)
			if readErr != nil {
				t.Fatal(readErr)
			}
			err = s.takeMessage(f)
		}
		if s.held > len(one)+Window {
			t.Fatalf("the host holds %d bytes for a stream that nobody reads", s.held)
		}
	}
	if len(s.queue) != 1 || !strings.Contains(err.Error(), "before they are taken") {
		t.Errorf("%d messages were taken in, then %v", len(s.queue), err)
	}
}

// Many messages of any size pass through a window that is smaller, with data between them. When all are taken, the
// window is as it was.
func TestMessagesLargerThanWindow(t *testing.T) {
	sizes := []int{2, MaxPayload, Window - 4*frameCost, Window, Window + 1, maxFromGuest}
	host := dial(t, func(s *Stream, _ string, _ json.RawMessage) (any, error) {
		for range 3 {
			for _, n := range sizes {
				if err := errors.Join(s.SendMessage(strings.Repeat("x", n-2)), s.Send(Stdout, []byte("between"))); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	})
	s, err := host.Open("watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for {
		it, err := s.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if it.Message != nil {
			got = append(got, len(it.Message))
		}
	}
	if want := fmt.Sprint(append(append(sizes, sizes...), sizes...)); fmt.Sprint(got) != want {
		t.Errorf("messages of %v bytes, want %s", got, want)
	}
	if s.held != 0 || s.lent != 0 {
		t.Errorf("all is taken, and %d bytes are held, %d lent", s.held, s.lent)
	}
}

// A message that has filled the window behind another item gets room for its next frame when that item is taken. So
// its sender does not wait forever.
func TestMessageGetsRoomWhenOthersAreTaken(t *testing.T) {
	var sent recorder
	s := newStream(newConn(&sent, nil, nil), 1)
	if err := s.takeData(frame{kind: frameData, payload: make([]byte, 101)}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.takeMessage(frame{kind: frameMessage, flags: flagMore, payload: make([]byte, MaxPayload)}); err != nil {
			t.Fatal(err)
		}
	}
	if sent.Len() > 0 {
		t.Error("the window is widened while something waits to be taken")
	}
	if _, err := s.Receive(); err != nil {
		t.Fatal(err)
	}
	f, err := readFrame(&sent.Buffer)
	const left = Window - 3*(MaxPayload+frameCost)
	if want := uint32(100 + frameCost + MaxPayload + frameCost - left); err != nil || f.kind != frameWindow ||
		binary.BigEndian.Uint32(f.payload) != want {
		t.Errorf("%v, %+v; want a window wider by %d", err, f, want)
	}
}

// Frames and messages may have their maximum size, and no more.
func TestSizeLimitsAreExact(t *testing.T) {
	reply := func(n int) string { return `{"Error":` + text(n-len(`{"Error":}`)) + `}` }
	for _, c := range []struct {
		idea string
		sent []byte
		want string // "": it is taken
	}{
		{"the largest frame", appendFrame(nil, frame{kind: frameData, stream: 1, payload: make([]byte, MaxPayload)}), ""},
		{
			"a frame that is larger",
			appendFrame(nil, frame{kind: frameData, stream: 1, payload: make([]byte, MaxPayload+1)}), "a frame of 65537 bytes",
		},
		{"the largest message", frames(frameMessage, text(maxFromGuest), MaxPayload), ""},
		{
			"a message that is larger", frames(frameMessage, text(maxFromGuest+1), MaxPayload),
			"a message of more than 1048576 bytes",
		},
		{"the largest reply", frames(frameReply, reply(maxFromGuest), MaxPayload), ""},
		{
			"a reply that is larger", frames(frameReply, reply(maxFromGuest+1), MaxPayload),
			"a message of more than 1048576 bytes",
		},
		{
			"a message that ends a reply",
			append(appendFrame(nil, frame{kind: frameReply, flags: flagMore, stream: 1, payload: []byte(`"`)}),
				frames(frameMessage, `"`, MaxPayload)...), "within another one",
		},
	} {
		t.Run(c.idea, func(t *testing.T) {
			err := hostTakes(t, c.sent)
			var protocol *ProtocolError
			if c.want == "" && !errors.Is(err, io.EOF) || c.want != "" &&
				(!errors.As(err, &protocol) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the session ended with %v, want %q", err, c.want)
			}
		})
	}
}

// No frame exceeds its maximum size, no matter how much is sent at once.
func TestFrameSizes(t *testing.T) {
	var sent recorder
	s := newStream(newConn(&sent, nil, nil), 1)
	if err := errors.Join(s.Send(Stdout, make([]byte, 2*MaxPayload)),
		s.SendMessage(strings.Repeat("x", MaxPayload))); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for {
		f, err := readFrame(&sent.Buffer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(f.payload))
	}
	if fmt.Sprint(sizes) != fmt.Sprint([]int{MaxPayload, MaxPayload, 3, MaxPayload, 2}) {
		t.Errorf("frames of %v bytes", sizes)
	}
	if s.credit != Window-2*MaxPayload-MaxPayload-2-5*frameCost {
		t.Errorf("%d bytes of the window are left", s.credit)
	}
}

type recorder struct{ bytes.Buffer }

func (*recorder) Close() error { return nil }

// A host may open as many streams as a guest serves, and no more.
func TestStreamLimit(t *testing.T) {
	for _, over := range []int{0, 1} {
		c := newConn(&recorder{}, nil,
			func(s *Stream, _ string, _ json.RawMessage) (any, error) { <-s.Done(); return nil, nil })
		var err error
		for id := range maxStreams + over {
			if err == nil {
				err = c.take(frame{kind: frameOpen, stream: uint32(id), payload: []byte(`{"Kind":"x"}`)})
			}
		}
		if (err != nil) != (over > 0) {
			t.Errorf("%d streams: %v", maxStreams+over, err)
		}
		_ = c.Close()
	}
}

// A host that opens more streams than a guest serves would lose its session. Those that users open leave room for
// pings and stops.
func TestUsersStreamsLeaveRoom(t *testing.T) {
	host := dial(t, func(s *Stream, kind string, _ json.RawMessage) (any, error) {
		if kind == KindConnect {
			<-s.Done()
		}
		return nil, nil
	})
	var opened []*Stream
	refused := 0
	for range 1100 {
		s, err := host.Open(KindConnect, Connect{Port: 80})
		if err != nil && !strings.Contains(err.Error(), "1008 streams to the pod are open") {
			t.Fatal(err)
		}
		if err == nil {
			opened = append(opened, s)
		} else {
			refused++
		}
	}
	if len(opened) != maxStreams-reservedStreams || refused != 1100-len(opened) {
		t.Errorf("%d streams were opened, %d refused", len(opened), refused)
	}
	if err := host.Call(t.Context(), KindPing, Ping{}, nil); err != nil {
		t.Error(err)
	}
	opened[0].Close()
	if _, err := host.Open(KindExec, Exec{}); err != nil {
		t.Errorf("a stream was closed, and another cannot be opened: %v", err)
	}
}
