package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/view/access"
)

// Gate admits users whose bearer token the cluster accepts, and shows them what they may list. A Server without a
// Gate is for loopback addresses alone; a Server with a Gate serves TLS.
type Gate struct {
	TLS    *tls.Config
	Review func(ctx context.Context, token string) (*access.Rights, error)
}

// cookie holds the token of a logged-in user. With this prefix, browsers accept it only from this host and only over
// TLS.
const cookie = "__Host-nodeless"

// token returns a request's bearer token, from its header or its cookie.
func token(r *http.Request) string {
	if t := httpguard.Bearer(r); t != "" {
		return t
	}
	if c, err := r.Cookie(cookie); err == nil {
		return c.Value
	}
	return ""
}

// gated serves the bearer of a token what they may see.
func (s *Server) gated() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) { writeLogin(w, http.StatusOK, "") })
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", logout)
	mux.HandleFunc("GET /lite.css", file("text/css; charset=utf-8", liteStyle))
	mux.HandleFunc("GET /icon.svg", file("image/svg+xml", icon))
	mux.HandleFunc("/", s.letIn)
	return mux
}

func (s *Server) letIn(w http.ResponseWriter, r *http.Request) {
	t := token(r)
	if t == "" {
		refuse(w, r, errNoToken)
		return
	}
	if err := s.beFull(r.Context()); err != nil {
		http.Error(w, "nothing can be shown: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	rights, err := s.o.Gate.Review(r.Context(), t)
	if err != nil {
		refuse(w, r, err)
		return
	}
	seat, err := s.seats.take(s, rights)
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer s.seats.leave(seat)
	if r.URL.Path == "/api/stream" {
		ctx, end := s.whileAllowed(r.Context(), t, rights.Key())
		defer end()
		r = r.WithContext(ctx)
	}
	if r.URL.Path == "/api/who" {
		reply(w, r, func(*http.Request) (any, error) { return map[string]string{"user": rights.User}, nil })
		return
	}
	seat.handler.ServeHTTP(w, r)
}

// whileAllowed returns a context that ends when the rights of a token's bearer change. A browser then reconnects by
// itself.
func (s *Server) whileAllowed(ctx context.Context, token, key string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	again := make(chan struct{}, 1)
	go func() {
		for {
			timer := s.o.Clock.AfterFunc(access.Remember, func() { again <- struct{}{} })
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-again:
			}
			now, err := s.o.Gate.Review(ctx, token)
			if errors.Is(err, access.ErrNobody) || errors.Is(err, access.ErrNothing) || err == nil && now.Key() != key {
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}

var (
	errNoToken = errors.New("log in with a bearer token of the cluster: Authorization: Bearer TOKEN, or at /login")
	errCrowded = errors.New("too many people with different rights look at once; try again in a while")
)

// refuse answers a request that is not admitted: programs get JSON, people get the login form.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, errNoToken) || errors.Is(err, access.ErrNobody):
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="nodeless"`)
	case errors.Is(err, access.ErrNothing):
		status = http.StatusForbidden
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		reply(w, r, func(*http.Request) (any, error) { return nil, failure{status, err} })
		return
	}
	text := ""
	if !errors.Is(err, errNoToken) {
		text = err.Error()
	}
	writeLogin(w, status, text)
}
