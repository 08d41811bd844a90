package web

import (
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/view"
)

// dist is the page as `make page` builds it of web/; without it there is /lite alone.
//
//go:embed all:dist
var dist embed.FS

// policy lets the page load and reach nothing but this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// bodyWithin is how long the body of a request may take to arrive.
const bodyWithin = 30 * time.Second

// Handler answers requests of callers with a token: the Server's own, or with a Gate one of the cluster, which a
// browser sends to the name alone that it was given for. Without a Gate it also refuses requests by another name than
// a loopback's: a page elsewhere can have its own name lead here (DNS rebinding), and would then read what is shown.
func (s *Server) Handler() http.Handler {
	inner := s.tokenOnly()
	if s.o.Gate != nil {
		inner = s.gated()
	}
	return httpguard.ReadWithin(bodyWithin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if (strings.HasPrefix(r.URL.Path, "/api/") || r.Method != http.MethodGet) && httpguard.ForeignSite(r) {
			http.Error(w, "another page may not ask this", http.StatusForbidden)
			return
		}
		inner.ServeHTTP(w, r)
	}))
}

// routes are what there is to ask for.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/stream", s.stream)
	for path, answer := range map[string]func(*http.Request) (any, error){
		"at": s.at, "frames": s.frames, "history": s.points, "pods": s.pods, "find": s.find, "waiting": s.waiting,
		"pending": s.pending, "why": s.why, "decisions": s.decisions, "savings": s.savings, "who": nobody,
		"pools": s.pools, "offers": s.offers, "names": s.names, "object": objectAPI{s.o.Object, s.allow, s.lacks}.answer,
		"moves": moves{s}.answer, "hosts": hostList{s.o.Hosts, s.allow, s.lacks}.answer, "addresses": addresses{s}.answer,
		"clusters": s.fleet.list, "clusters/sums": s.fleet.sums,
	} {
		mux.HandleFunc("GET /api/"+path, func(w http.ResponseWriter, r *http.Request) { reply(w, r, answer) })
	}
	mux.HandleFunc("POST /api/whatif", func(w http.ResponseWriter, r *http.Request) {
		reply(w, r, func(r *http.Request) (any, error) { return s.whatIf(w, r) })
	})
	mux.HandleFunc("GET /lite", s.lite)
	mux.HandleFunc("GET /lite/decisions", s.liteDecisions)
	mux.HandleFunc("GET /lite/savings", s.liteSavings)
	mux.HandleFunc("GET /lite.css", file("text/css; charset=utf-8", liteStyle))
	mux.HandleFunc("GET /icon.svg", file("image/svg+xml", icon))
	page, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	if _, err := fs.Stat(page, "index.html"); err != nil {
		mux.Handle("GET /{$}", http.RedirectHandler("/lite", http.StatusFound))
	} else {
		mux.Handle("GET /", smaller(page, http.FileServerFS(page)))
	}
	return mux
}

// nobody is who looks where there is no login.
func nobody(*http.Request) (any, error) { return map[string]string{"user": ""}, nil }

// loopback reports whether a Host header names this machine from within.
func loopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// failure is an error with the status it is answered with; others are answered as failures of this server.
type failure struct {
	status int
	error
}

// statusOf is the status that an error is answered with, 0 without one.
func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if f := (failure{}); errors.As(err, &f) {
		return f.status
	}
	return http.StatusInternalServerError
}

// reply answers with JSON.
func reply(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	w.Header().Set("Content-Type", "application/json")
	status := http.StatusOK
	v, err := answer(r)
	if err != nil {
		status = statusOf(err)
		v = map[string]string{"error": view.Escape(err.Error())}
	}
	text, raw := v.(json.RawMessage)
	if !raw {
		if text, err = json.Marshal(v); err != nil {
			http.Error(w, `{"error":"the answer cannot be written"}`, http.StatusInternalServerError)
			return
		}
	}
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(text)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	_, _ = zip.Write(text)
	_ = zip.Close()
}
