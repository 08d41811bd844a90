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
	"github.com/nodeless/nodeless/view/language"
)

// dist is the page as `make page` builds it from web/; without it, only /lite is served.
//
//go:embed all:dist
var dist embed.FS

// policy is the Content-Security-Policy: the page may load from and connect to this server only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// bodyWithin is how long the body of a request may take to arrive.
const bodyWithin = 30 * time.Second

// Handler serves callers with a token: the Server's own or, with a Gate, one of the cluster, which a browser sends
// only to the host name that set it. Without a Gate, Handler also refuses requests whose Host is not loopback: a page
// elsewhere can point its own name here (DNS rebinding), and would then read what is shown.
func (s *Server) Handler() http.Handler {
	inner := s.tokenOnly()
	if s.o.Gate != nil {
		inner = s.gated()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	})
}

// routes returns the handler of all paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/stream", s.stream)
	for path, answer := range map[string]func(*http.Request) (any, error){
		"at": s.at, "frames": s.frames, "history": s.points, "pods": s.pods, "find": s.find, "waiting": s.waiting,
		"pending": s.pending, "why": s.why, "decisions": s.decisions, "savings": s.savings, "who": nobody,
		"pools": s.pools, "offers": s.offers, "names": s.names, "object": objectAPI{s.o.Object, s.allow, s.lacks}.answer,
		"moves": moves{s}.answer, "hosts": hostList{s.o.Hosts, s.allow, s.lacks}.answer, "addresses": addresses{s}.answer,
		"clusters": s.fleet.list, "clusters/sums": s.fleet.sums, "language/ko": korean,
		"periods": periods{s.o.Model, s.o.Clock}.answer, "rollouts": rollouts{s.o.Model}.answer,
		"usage": usage{s.o.Usage, s.noUsage}.answer, "costs": costs{s.o.Model}.answer,
		"parts": parts{s.o.Model}.answer,
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
		mux.HandleFunc("GET /{$}", toLite)
	} else {
		mux.Handle("GET /", smaller(page, http.FileServerFS(page)))
	}
	return mux
}

// toLite redirects to /lite of the same cluster. The address is relative, which http.Redirect would change: the browser
// may see this page below the path of its context.
func toLite(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "lite")
	w.WriteHeader(http.StatusFound)
}

// korean answers with the page's Korean message catalogue.
func korean(*http.Request) (any, error) { return json.RawMessage(language.Korean), nil }

// nobody answers who is logged in: no one, since this page has no login.
func nobody(*http.Request) (any, error) { return map[string]string{"user": ""}, nil }

// loopback reports whether a Host header is localhost or a loopback address.
func loopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// failure is an error with the HTTP status of its answer; other errors are answered with 500.
type failure struct {
	status int
	error
}

// statusOf returns the HTTP status of an error's answer, 0 for nil.
func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if f := (failure{}); errors.As(err, &f) {
		return f.status
	}
	return http.StatusInternalServerError
}

// reply writes an answer, or its error, as JSON.
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
