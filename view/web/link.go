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

// tokenParameter carries the token in a link.
const tokenParameter = "token"

var errNoLink = failure{
	http.StatusUnauthorized,
	errors.New("this page asks for its token: open the link that was printed when it started (nodeless status prints " +
		"that of nodeless up again), " +
		"or send Authorization: Bearer TOKEN"),
}

//go:embed link.html
var linkText []byte

// Link is the address that opens a Server without a Gate, at a listener's address.
func Link(address, token string) string {
	return "http://" + address + "/?" + url.Values{tokenParameter: {token}}.Encode()
}

// tokenOnly answers who has the token. A browser gets it by Link, keeps it in a cookie, and is sent on to the address
// without it, so that it is in no history and no bookmark; a program sends it as Authorization: Bearer, or in the
// address.
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
		if r.URL.Path == "/login" { // where the page goes when it is not known any more
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

// ready begins to read the cluster, and waits for it unless a file of the page is asked for, which shows nothing of it.
func (s *Server) ready(r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/lite") {
		return s.beFull(r.Context())
	}
	return s.begin()
}

// known reports whether a request has the token. One in the address counts more than the cookie: a link that is out
// of date says so.
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

// linkCookie is the name of the cookie. Browsers send a host's cookies to all of its ports: each page has a name of
// its own.
func linkCookie(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		port = "80"
	}
	return "nodeless-" + port
}

// withoutToken is an address of this very server without its token.
func withoutToken(u *url.URL) string {
	q := u.Query()
	q.Del(tokenParameter)
	// two slashes would lead to another host
	clean := url.URL{Path: "/" + strings.TrimLeft(u.Path, `/\`), RawQuery: q.Encode()}
	return clean.String()
}

// refuseLink tells who has not the token where it is: programs as JSON, people as a page.
func refuseLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="nodeless"`)
	if strings.HasPrefix(r.URL.Path, "/api/") {
		reply(w, r, func(*http.Request) (any, error) { return nil, errNoLink })
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(linkText) // or the reader went
}
