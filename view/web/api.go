package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nodeless/nodeless/view"
)

// number parses a parameter that must be a whole number.
func number(r *http.Request, name string) (int64, error) {
	n, err := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
	if err != nil {
		return 0, failure{
			http.StatusBadRequest,
			fmt.Errorf("parameter %s=%q: give a whole number", name, r.URL.Query().Get(name)),
		}
	}
	return n, nil
}

// at answers with the state of the cluster at t, in milliseconds since 1970.
func (s *Server) at(r *http.Request) (any, error) {
	t, err := number(r, "t")
	if err != nil {
		return nil, err
	}
	_, text, err := s.history.state(time.UnixMilli(t), s.o.Model.Resources())
	return json.RawMessage(text), err
}

// mostFrames is the maximum number of frames in an answer.
const mostFrames = 2000

// frames answers with the frames that follow an ID, for replay.
func (s *Server) frames(r *http.Request) (any, error) {
	list, _, known, _, err := s.history.since(r.URL.Query().Get("after"), mostFrames)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, failure{http.StatusGone, fmt.Errorf("what was at %q is not kept any more", r.URL.Query().Get("after"))}
	}
	return json.RawMessage(append(joined([]byte("["), list), ']')), nil
}

func (s *Server) points(*http.Request) (any, error) { return s.history.points(), nil }

// pod is a pod as the page receives it.
type pod struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Phase     string  `json:"phase"`
	Created   int64   `json:"created"`
	Deleting  bool    `json:"deleting,omitempty"`
	Requests  []int64 `json:"requests"`
	Why       string  `json:"why,omitempty"`
}

func (s *Server) podList(rows []view.PodRow) []pod {
	out := make([]pod, len(rows))
	for i := range rows {
		p := &rows[i]
		out[i] = pod{
			view.Escape(p.Namespace), view.Escape(p.Name), p.Phase.String(), unix(p.Created), p.Deleting,
			p.Requests[:len(s.o.Model.Resources())], view.Escape(p.Why),
		}
	}
	return out
}

// pods answers with a Node's pods, in the order of the letters of its record.
func (s *Server) pods(r *http.Request) (any, error) {
	return s.podList(s.o.Model.PodsOf(r.URL.Query().Get("node"), view.Query{}).Rows), nil
}

// find answers with the pods that a filter matches, as indices into the letters of their Nodes.
func (s *Server) find(r *http.Request) (any, error) {
	return s.o.Model.PodsMatching(r.URL.Query().Get("q")), nil
}

// mostWaiting is the maximum number of pending pods listed.
const mostWaiting = 500

// waiting answers with the pods that have been pending longest, and the number of all pending pods.
func (s *Server) waiting(r *http.Request) (any, error) {
	p := s.o.Model.Waiting(view.Query{Filter: r.URL.Query().Get("q"), Window: view.Window{Height: mostWaiting}})
	return map[string]any{"of": p.Of, "shown": p.Shown, "pods": s.podList(p.Rows)}, nil
}
