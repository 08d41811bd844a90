package guest

import (
	"io"
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

// maxTerminationLog is how much of a log becomes a termination message, in bytes, as in a kubelet.
const maxTerminationLog = 2048

func (b *broadcast) lastBytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tail
}
