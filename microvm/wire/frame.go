// Package wire is the protocol between a microVM host and the agent inside a microVM: frames over one byte stream (a
// virtio-serial port) and, on top of them, streams that both sides use concurrently: one for the pod's status, one
// for its logs, one for each exec.
//
// The host trusts nothing that comes from a guest: it checks every length before it allocates, a guest cannot open
// streams, and a violation of the protocol ends the connection with a [ProtocolError] and has no other effect. Both
// sides limit what they buffer for each other: a stream carries at most [Window] bytes that its reader has not taken,
// or one message that is larger.
//
// The package imports only the standard library, since the agent is part of every guest's memory.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Version of the protocol. A host may adopt virtual machines that an older release started; their agents use that
// release's version.
const Version = 1

// Limits of the protocol, in bytes.
const (
	MaxPayload = 64 << 10  // of one frame
	Window     = 256 << 10 // sent on a stream and not yet taken by its reader
	headerSize = 12
	frameMagic = 'N'
)

// frameType says what a frame means for its stream.
type frameType uint8

const (
	frameOpen    frameType = iota + 1 // host to guest: opens a stream; the payload is an opening
	frameData                         // bytes; the first byte of the payload is the channel
	frameEnd                          // no more data on a channel
	frameMessage                      // JSON, possibly in several frames
	frameWindow                       // the reader took this many bytes
	frameReply                        // guest to host: the result, as JSON, which ends the stream
	frameReset                        // the sender has closed the stream
	frameLast
)

// flagMore marks all frames of a message or reply but the last.
const flagMore = 1

type frame struct {
	kind    frameType
	flags   uint8
	stream  uint32
	payload []byte
}

// ProtocolError says which rule of the protocol the other side broke. The connection is unusable afterwards.
type ProtocolError struct{ Rule string }

func (e *ProtocolError) Error() string { return "control protocol broken by the other side: " + e.Rule }

func broken(format string, args ...any) error { return &ProtocolError{fmt.Sprintf(format, args...)} }

// appendFrame appends the encoded frame to b.
func appendFrame(b []byte, f frame) []byte {
	b = append(b, frameMagic, byte(f.kind), f.flags, 0)
	b = binary.BigEndian.AppendUint32(b, f.stream)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.payload)))
	return append(b, f.payload...)
}

// readFrame reads one frame. It checks the length before it allocates. io.EOF means that the byte stream ended
// between two frames.
func readFrame(r io.Reader) (frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: frameType(h[1]), flags: h[2], stream: binary.BigEndian.Uint32(h[4:])}
	length := binary.BigEndian.Uint32(h[8:])
	switch {
	case h[0] != frameMagic || h[3] != 0:
		return frame{}, broken("a frame begins with % x", h[:4])
	case f.kind == 0 || f.kind >= frameLast:
		return frame{}, broken("frame type %d is unknown", f.kind)
	case f.flags&^flagMore != 0:
		return frame{}, broken("frame flags %#x are unknown", f.flags)
	case length > MaxPayload:
		return frame{}, broken("a frame of %d bytes, more than %d", length, MaxPayload)
	}
	f.payload = make([]byte, length)
	if _, err := io.ReadFull(r, f.payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return f, nil
}
