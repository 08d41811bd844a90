package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nodeless/nodeless/view"
)

// Engine answers questions about the cluster that it watches. Its answers can be marshalled to JSON.
type Engine interface {
	// Waiting returns every shape of pending pods, evaluated against every NodePool.
	Waiting(context.Context) (any, error)
	// Offers returns what each NodePool may launch, and at which prices.
	Offers(context.Context) (any, error)
	// Addresses returns where nodes and pods get IP addresses, and how many are left.
	Addresses(context.Context) (any, error)
	// Why explains an object: of is pod/NAME or another kind, namespace a pod's. It returns a Malformed error for a
	// question that it cannot understand.
	Why(ctx context.Context, namespace, of string) (any, error)
}

// Malformed is the error for a question that cannot be understood.
type Malformed struct{ Err error }

func (m Malformed) Error() string { return m.Err.Error() }

// asker passes questions to the engine, one at a time: each may take a core for a while.
type asker struct {
	o   *Options
	one chan struct{} // holds a value while a question is answered; whoever put it there owns the fields below

	engine  Engine
	answers map[string]given // by question
}

// given is an answer about the whole cluster, and when it was given.
type given struct {
	answer any
	at     time.Time
}

// keptFor is how long an answer about the whole cluster is given to others who ask the same.
const keptFor = 2 * time.Second

var errNoAnswers = failure{http.StatusNotImplemented, errors.New("this page was started without the engine's answers")}

// ask waits for its turn, starts watching the cluster on first use, and runs f.
func (a *asker) ask(life, ctx context.Context, f func(Engine) (any, error)) (any, error) {
	if a.o.Engine == nil || life == nil {
		return nil, errNoAnswers
	}
	select {
	case a.one <- struct{}{}:
		defer func() { <-a.one }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.engine == nil {
		e, err := a.o.Engine(life)
		if err != nil {
			return nil, err
		}
		a.engine = e
	}
	return f(a.engine)
}

func (s *Server) lifetime() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// again answers a question about the whole cluster as it was answered a moment ago, or calls f. Call it only within
// ask, which answers one question at a time.
func (a *asker) again(question string, f func() (any, error)) (any, error) {
	if was, ok := a.answers[question]; ok && a.o.Clock.Now().Sub(was.at).Abs() < keptFor {
		return was.answer, nil
	}
	answer, err := f()
	if err == nil {
		a.answers[question] = given{answer, a.o.Clock.Now()}
	}
	return answer, err
}

// pending answers with every shape of pending pods, evaluated against every NodePool.
func (s *Server) pending(r *http.Request) (any, error) { return s.asked(r, "pending", Engine.Waiting) }

// offers answers with what each NodePool may launch.
func (s *Server) offers(r *http.Request) (any, error) { return s.asked(r, "offers", Engine.Offers) }

// addresses answers with where nodes and pods get IP addresses.
type addresses struct{ *Server }

func (x addresses) answer(r *http.Request) (any, error) {
	return x.asked(r, "addresses", Engine.Addresses)
}

// asked puts a question about the whole cluster to the engine.
func (s *Server) asked(r *http.Request, name string, question func(Engine, context.Context) (any, error),
) (any, error) {
	if s.noEngine != nil {
		return nil, s.noEngine
	}
	return s.asker.ask(s.lifetime(), r.Context(), func(e Engine) (any, error) {
		return s.asker.again(name, func() (any, error) {
			a, err := question(e, r.Context())
			if err != nil {
				return nil, err
			}
			return escaped(a)
		})
	})
}

// why answers a question about one object: "of" is pod/NAME or another kind, "namespace" a pod's.
func (s *Server) why(r *http.Request) (any, error) {
	if s.noEngine != nil {
		return nil, s.noEngine
	}
	namespace, of := r.URL.Query().Get("namespace"), r.URL.Query().Get("of")
	if !strings.Contains(of, "/") {
		return nil, failure{http.StatusBadRequest, fmt.Errorf("of=%q: name one object, such as pod/NAME or node/NAME", of)}
	}
	return s.asker.ask(s.lifetime(), r.Context(), func(e Engine) (any, error) {
		a, err := e.Why(r.Context(), namespace, of)
		if errors.As(err, new(Malformed)) {
			return nil, failure{http.StatusBadRequest, err}
		} else if err != nil {
			return nil, failure{http.StatusNotFound, err}
		}
		return escaped(a)
	})
}

// escaped returns an answer as a JSON value in which every string is escaped by view.Escape.
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
