package web

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// heartbeat is how often something is sent when nothing happens, so that both ends know that the other is alive.
const heartbeat = 15 * time.Second

// framesAtOnce bounds the frames prepared for one reader at a time.
const framesAtOnce = 100

// stream follows the cluster as server-sent events: "state" is everything, "frame" is what changed, and "decided"
// says that there are new decisions. The ID of the last event lets a browser resume after a lost connection or a
// reload (parameter "last"), if that ID is still known.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d pages follow already: close some", mostStreams), http.StatusServiceUnavailable)
		return
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("last")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := newSender(w, r)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	s.decided.begin(s.lifetime())
	told := 0
	for {
		wait, more, err := s.send(out, &last)
		version, decided := s.decided.news()
		if err == nil && version != told {
			told = version
			err = out.event("decided", "", strconv.AppendInt(nil, int64(version), 10))
		}
		if err == nil {
			err = out.flush()
		}
		if err != nil {
			return // the reader has gone
		}
		if more {
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-wait:
		case <-decided:
		case <-beat.C:
			if _, err := io.WriteString(out.w, ": alive\n\n"); err != nil || out.flush() != nil {
				return
			}
		}
	}
}

// send writes the frames after the last ID, or the whole state if that is not known, and updates the ID. If there is
// no more to send, wait is closed at the next frame.
func (s *Server) send(out *sender, last *string) (wait <-chan struct{}, more bool, err error) {
	frames, ids, known, wait, err := s.history.since(*last, framesAtOnce)
	if err == nil && !known {
		var text []byte
		if *last, text, err = s.history.state(time.Time{}, s.o.Model.Resources()); err == nil {
			text = fmt.Appendf(text[:len(text)-1], `,"n":%d}`, s.o.Clock.Now().UnixMilli())
			err = out.event("state", *last, text)
		}
	}
	for i := 0; i < len(frames) && err == nil; i++ {
		*last = ids[i]
		err = out.event("frame", *last, frames[i])
	}
	return wait, !known || len(frames) == framesAtOnce, err
}

// sender writes events, compressed if the reader accepts gzip.
type sender struct {
	w     io.Writer
	zip   *gzip.Writer // nil = not compressed
	under *http.ResponseController
}

func newSender(w http.ResponseWriter, r *http.Request) *sender {
	s := &sender{w: w, under: http.NewResponseController(w)}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed)
		s.w = s.zip
	}
	w.WriteHeader(http.StatusOK)
	return s
}

// patience is how long a reader may take to receive what is sent at once.
const patience = 30 * time.Second

// event sends an event. If it has no ID, the previous one remains the last. The text has no line breaks: it is JSON.
func (s *sender) event(name, id string, text []byte) error {
	_ = s.under.SetWriteDeadline(time.Now().Add(patience))
	if id != "" {
		id = "id: " + id + "\n"
	}
	_, err := fmt.Fprintf(s.w, "event: %s\n%sdata: %s\n\n", name, id, text)
	return err
}

func (s *sender) flush() error {
	_ = s.under.SetWriteDeadline(time.Now().Add(patience))
	if s.zip != nil {
		if err := s.zip.Flush(); err != nil {
			return err
		}
	}
	return s.under.Flush()
}
