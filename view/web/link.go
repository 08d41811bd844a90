package web

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

// tokenParameter is the query parameter that carries the token in a link.
const tokenParameter = "token"

var errNoLink = failure{
	http.StatusUnauthorized,
	errors.New("this page asks for its token: open the link that was printed when it started (nodeless status prints " +
		"that of nodeless up again), " +
		"or send Authorization: Bearer TOKEN"),
}

//go:embed link.html
var linkText []byte

// Link returns the URL that opens a Server without a Gate at a listener's address.
func Link(address, token string) string {
	return "http://" + address + "/?" + url.Values{tokenParameter: {token}}.Encode()
}

// tokenOnly serves requests that carry the token. A browser gets the token from Link, keeps it in a cookie, and is
// redirected to the URL without it, so that the token is in no history and no bookmark. A program sends it as
// Authorization: Bearer, or in the URL.
func (s *Server) tokenOnly() http.Handler {
	own := &seat{server: s, handler: s.routes()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			http.Error(w, fmt.Sprintf("this page is for loopback addresses, and was asked for as %q: open it as "+
				"http://127.0.0.1 with its port", r.Host), http.StatusForbidden)
			return
		}
		if !s.known(r) {
			refuseLink(w, r)
			return
		}
		if r.URL.Path == "/login" { // where the page goes when its token is not accepted any more
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		if linked(r) && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.SetCookie(w, &http.Cookie{ //nolint:gosec // loopback speaks HTTP: a Secure cookie would never come back
				Name: linkCookie(r.Host), Value: s.o.Token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode,
			})
			http.Redirect(w, r, withoutToken(r.URL), http.StatusSeeOther) //nolint:gosec // a path of this page alone
			return
		}
		if strings.HasPrefix(r.URL.Path, clustersPath) {
			s.fleet.ServeHTTP(w, r)
			return
		}
		own.answer(w, r)
	})
}

// ready starts reading the cluster and waits until it has been read, unless the request is for a static file of the
// page.
func (s *Server) ready(r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/lite") {
		return s.beFull(r.Context())
	}
	return s.begin()
}

// known reports whether a request has the token. A token in the URL takes precedence over the cookie, so that an
// outdated link is refused.
func (s *Server) known(r *http.Request) bool {
	if linked(r) {
		return httpguard.Same(r.URL.Query().Get(tokenParameter), s.o.Token)
	}
	if httpguard.Same(httpguard.Bearer(r), s.o.Token) {
		return true
	}
	c, err := r.Cookie(linkCookie(r.Host))
	return err == nil && httpguard.Same(c.Value, s.o.Token)
}

func linked(r *http.Request) bool { return r.URL.Query().Has(tokenParameter) }

// linkCookie returns the name of the cookie. Browsers send a host's cookies to all of its ports, so the name contains
// the port.
func linkCookie(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		port = "80"
	}
	return "nodeless-" + port
}

// withoutToken returns a URL of this server without its token.
func withoutToken(u *url.URL) string {
	q := u.Query()
	q.Del(tokenParameter)
	// two leading slashes would lead to another host
	clean := url.URL{Path: "/" + strings.TrimLeft(u.Path, `/\`), RawQuery: q.Encode()}
	return clean.String()
}

// refuseLink tells a caller without the token where to find it: programs in JSON, people on a page.
func refuseLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="nodeless"`)
	if strings.HasPrefix(r.URL.Path, "/api/") {
		reply(w, r, func(*http.Request) (any, error) { return nil, errNoLink })
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(linkText) // fails if the reader has gone
}
