package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/why"
	"github.com/nodeless/nodeless/view"
)

// asker has the engine answer about the cluster. One question at a time is enough: each may take a core for a while.
type asker struct {
	o   *Options
	one chan struct{}

	mu      sync.Mutex
	cluster *capture.Cluster
}

var errNoAnswers = failure{http.StatusNotImplemented, errors.New("this page was started without the engine's answers")}

// ask waits for its turn, has the cluster watched the first time, and asks.
func (a *asker) ask(life, ctx context.Context, f func(*capture.Cluster) (any, error)) (any, error) {
	if a.o.Open == nil || life == nil {
		return nil, errNoAnswers
	}
	select {
	case a.one <- struct{}{}:
		defer func() { <-a.one }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cluster == nil {
		c, err := a.o.Open(life)
		if err != nil {
			return nil, err
		}
		a.cluster = c
	}
	return f(a.cluster)
}

func (s *Server) lifetime() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// pending is every shape of pods that waits, against every pool.
func (s *Server) pending(r *http.Request) (any, error) {
	if s.noEngine != nil {
		return nil, s.noEngine
	}
	return s.asker.ask(s.lifetime(), r.Context(), func(c *capture.Cluster) (any, error) {
		return escaped(why.AllWaiting(c, s.o.Policy))
	})
}

// why is the answer about one object: "of" is pod/NAME or another kind, "namespace" a pod's.
func (s *Server) why(r *http.Request) (any, error) {
	if s.noEngine != nil {
		return nil, s.noEngine
	}
	of, err := why.Parse(r.URL.Query().Get("namespace"), r.URL.Query().Get("of"))
	if err != nil {
		return nil, failure{http.StatusBadRequest, err}
	}
	return s.asker.ask(s.lifetime(), r.Context(), func(c *capture.Cluster) (any, error) {
		a, err := why.Ask(r.Context(), c, s.o.Policy, of)
		if err != nil {
			return nil, failure{http.StatusNotFound, err}
		}
		return escaped(a)
	})
}

// escaped is JSON in which no text can do anything but be read.
func escaped(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return escapeTree(tree), nil
}

func escapeTree(v any) any {
	switch v := v.(type) {
	case string:
		return view.Escape(v)
	case []any:
		for i := range v {
			v[i] = escapeTree(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = escapeTree(v[key])
		}
	}
	return v
}
