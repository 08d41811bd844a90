package guest

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/nodeless/nodeless/microvm/wire"
)

// broadcast sends a container's output to all clients that are attached to it.
type broadcast struct {
	mu      sync.Mutex
	streams map[*wire.Stream]wire.Attach
	tail    []byte // the last bytes, for the termination message
}

// channel returns a writer for one of the outputs.
func (b *broadcast) channel(n byte) io.Writer { return broadcastWriter{b, n} }

type broadcastWriter struct {
	b       *broadcast
	channel byte
}

// Write never fails. A slow reader slows the container down, as in every container runtime; one that has disconnected
// is removed.
func (w broadcastWriter) Write(p []byte) (int, error) {
	w.b.mu.Lock()
	w.b.tail = append(w.b.tail, p...)
	if extra := len(w.b.tail) - maxTerminationLog; extra > 0 {
		w.b.tail = append([]byte(nil), w.b.tail[extra:]...)
	}
	var to []*wire.Stream
	for s, a := range w.b.streams {
		if w.channel == wire.Stdout && a.Stdout || w.channel == wire.Stderr && a.Stderr {
			to = append(to, s)
		}
	}
	w.b.mu.Unlock()
	for _, s := range to {
		if err := s.Send(w.channel, p); err != nil {
			w.b.remove(s)
		}
	}
	return len(p), nil
}

func (b *broadcast) add(s *wire.Stream, a wire.Attach) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.streams == nil {
		b.streams = map[*wire.Stream]wire.Attach{}
	}
	b.streams[s] = a
}

func (b *broadcast) remove(s *wire.Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
}

// How much of the end of a log becomes a termination message, as in a kubelet: so many bytes, and no more lines than
// this (pkg/kubelet/container/runtime.go, Kubernetes 1.36).
const (
	maxTerminationLog      = 2048
	maxTerminationLogLines = 80
)

// end returns the end of the log for a termination message.
func (b *broadcast) end() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := slices.Collect(bytes.Lines(b.tail))
	return bytes.Join(lines[max(0, len(lines)-maxTerminationLogLines):], nil)
}
