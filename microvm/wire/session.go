package wire

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A session begins with the host's preamble, which the guest sends back. Anything before it is left over from an
// earlier session, for instance of a host that was killed in the middle of a frame, and is skipped.
const (
	preambleMagic = "NODELESS"
	preambleSize  = len(preambleMagic) + 2 + nonceSize
	nonceSize     = 16
	// maxStale limits what is skipped. It is more than the buffers between the two sides can hold.
	maxStale = 4 << 20
)

type preamble struct {
	version uint16
	nonce   [nonceSize]byte
}

func (p preamble) bytes() []byte {
	b := binary.BigEndian.AppendUint16([]byte(preambleMagic), p.version)
	return append(b, p.nonce[:]...)
}

// findPreamble skips to the next preamble that accept accepts. It skips at most limit bytes.
func findPreamble(r *bufio.Reader, limit int, accept func(preamble) bool) error {
	for skipped := 0; ; skipped++ {
		b, err := r.Peek(preambleSize)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(b, []byte(preambleMagic)) {
			p := preamble{version: binary.BigEndian.Uint16(b[len(preambleMagic):])}
			copy(p.nonce[:], b[len(preambleMagic)+2:])
			if accept(p) {
				_, err := r.Discard(preambleSize)
				return err
			}
		}
		if skipped >= limit {
			return broken("no session begins within %d bytes", limit)
		}
		_, _ = r.Discard(1) // cannot fail: it was peeked
	}
}

// Dial begins a session as the host, over a connection to the guest's control port. Set a deadline on the connection,
// since the guest may hang or may still be booting. stale means that an earlier attempt was not answered: the guest
// may be waiting for the rest of a frame that a killed host left unfinished, so Dial sends a frame's worth of zeros
// first.
func Dial(rw io.ReadWriteCloser, stale bool) (*Conn, error) {
	p := preamble{version: Version}
	_, _ = rand.Read(p.nonce[:]) // never fails
	var out []byte
	if stale {
		out = make([]byte, MaxPayload+headerSize)
	}
	if _, err := rw.Write(append(out, p.bytes()...)); err != nil {
		return nil, fmt.Errorf("begin a session with the guest agent: %w", err)
	}
	r := bufio.NewReaderSize(rw, MaxPayload)
	var version uint16
	if err := findPreamble(r, maxStale,
		func(q preamble) bool { version = q.version; return q.nonce == p.nonce }); err != nil {
		return nil, fmt.Errorf("wait for the guest agent's answer: %w", err)
	}
	if version != Version {
		return nil, fmt.Errorf("the guest agent speaks version %d of the control protocol, this host version %d: stop the "+
			"pod, it was started by another release", version, Version)
	}
	return newConn(rw, r, nil), nil
}

// ServeGuest serves one host after another until reading fails; the error is io.EOF if no host is connected. handler
// serves the streams that the hosts open.
//
// A guest may not notice that one host has disconnected and another has connected. So a session ends where the next
// one's preamble begins, and after a violation of the protocol the guest waits for the next preamble.
func ServeGuest(rw io.ReadWriter, handler Handler) error {
	r := bufio.NewReaderSize(rw, MaxPayload)
	for {
		c, err := accept(rw, r, handler)
		if err != nil {
			return err
		}
		var protocol *ProtocolError
		if err := c.Serve(); !errors.Is(err, errNextSession) && !errors.As(err, &protocol) {
			return err
		}
	}
}

var errNextSession = errors.New("another host has begun a session")

func accept(rw io.ReadWriter, r *bufio.Reader, handler Handler) (*Conn, error) {
	var p preamble
	if err := findPreamble(r, math.MaxInt, func(q preamble) bool { p = q; return true }); err != nil {
		return nil, err
	}
	p.version = Version
	if _, err := rw.Write(p.bytes()); err != nil {
		return nil, err
	}
	return newConn(unclosed{rw}, r, handler), nil
}

// unclosed ignores Close, so that the connection outlives a session.
type unclosed struct{ io.ReadWriter }

func (unclosed) Close() error { return nil }
