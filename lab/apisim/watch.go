package apisim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is the body of a watch. Events are generated as they are read.
type stream struct {
	s       *Server
	t       *table
	filter  filter
	ctx     context.Context
	timeout *time.Timer
	next    int       // the next change of the table, counted from its first
	initial []*record // initial objects still to be sent; mark is the bookmark after them
	mark    []byte
	proto   bool
	pending bytes.Buffer
	closed  chan struct{}
	once    sync.Once
}

// longest is how long a watch lasts if the client sets no timeout: the minimum of the real server
// (--min-request-timeout).
const longest = 30 * time.Minute

// watch starts a watch from a revision or, if the client requests initial events or gives no revision, from all
// existing objects.
func (s *Server) watch(r *request) (*stream, error) {
	f, err := newFilter(r.namespace, r.query)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &stream{
		s: s, t: s.table(r.kind), filter: f, ctx: r.Context(), proto: s.wantsProtobuf(r),
		closed: make(chan struct{}),
	}
	if seconds, _ := strconv.Atoi(r.query.Get("timeoutSeconds")); seconds > 0 {
		w.timeout = time.NewTimer(time.Duration(seconds) * time.Second)
	} else {
		w.timeout = time.NewTimer(longest)
	}
	from, _ := strconv.ParseUint(r.query.Get("resourceVersion"), 10, 64)
	initial, _ := strconv.ParseBool(r.query.Get("sendInitialEvents"))
	if from == 0 || initial {
		for _, x := range sorted(w.t.items) {
			if f.matches(x.object) {
				w.initial = append(w.initial, x)
			}
		}
		if initial {
			w.mark = fmt.Appendf(nil,
				`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}`,
				r.kind.Kind, r.kind.GroupVersion(), s.revision, metav1.InitialEventsAnnotationKey)
		}
		w.next = w.t.trimmed + len(w.t.log)
		return w, nil
	}
	switch {
	case from > s.revision:
		return nil, refusal(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, r,
			"Too large resource version: %d, current: %d", from, s.revision)
	case from < w.t.since:
		return nil, refusal(http.StatusGone, metav1.StatusReasonExpired, r, "too old resource version: %d (%d)", from,
			w.t.since)
	}
	w.next = w.t.trimmed + sort.Search(len(w.t.log), func(i int) bool { return w.t.log[i].revision > from })
	return w, nil
}

func (w *stream) say(t watch.EventType, object []byte) {
	if w.proto {
		w.sayProto(t, object)
		return
	}
	fmt.Fprintf(&w.pending, "{\"type\":%q,\"object\":%s}\n", t, object)
}

// Read waits for the next event.
func (w *stream) Read(p []byte) (int, error) {
	for {
		if w.pending.Len() > 0 {
			return w.pending.Read(p)
		}
		changed := w.fill()
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-w.timeout.C:
			return 0, io.EOF
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		case <-w.closed:
			return 0, io.ErrClosedPipe
		}
	}
}

// fill queues the changes since the last call. If there are none, it returns a channel that is closed at the next
// change.
func (w *stream) fill() <-chan struct{} {
	if w.initially() {
		return nil
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	at := w.next - w.t.trimmed
	switch {
	case at < 0: // too slow: the reader sees a broken watch and starts another
		_ = w.Close()
		return w.t.changed
	case at == len(w.t.log):
		return w.t.changed
	}
	for _, e := range w.t.log[at:] {
		if kind, r := e.seenBy(w.filter); r != nil {
			w.say(kind, r.text)
		}
	}
	w.next = w.t.trimmed + len(w.t.log)
	return nil
}

// initially queues some of the initial objects, and reports whether there was anything to queue.
func (w *stream) initially() bool {
	if len(w.initial) == 0 && w.mark == nil {
		return false
	}
	some := w.initial[:min(len(w.initial), 100)]
	w.initial = w.initial[len(some):]
	for _, x := range some {
		w.say(watch.Added, x.text)
	}
	if len(w.initial) == 0 && w.mark != nil {
		w.say(watch.Bookmark, w.mark)
		w.mark = nil
	}
	return true
}

// Close ends the watch.
func (w *stream) Close() error {
	w.once.Do(func() {
		w.timeout.Stop()
		close(w.closed)
	})
	return nil
}
