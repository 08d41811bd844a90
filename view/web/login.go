package web

import (
	"net/http"
	"regexp"
	"strings"
)

// mostCookie is the length in bytes of the longest token that is kept in a cookie.
const mostCookie = 3800

// tokens matches everything that an API server issues as a token, and nothing that a cookie cannot hold.
var tokens = regexp.MustCompile(`^[A-Za-z0-9._~+/=:-]+$`)

func writeLogin(w http.ResponseWriter, status int, problem string) {
	m := newMarkup("Log in")
	m.add("<h1>Nodeless</h1>\n")
	if problem != "" {
		m.add("<p role=\"alert\">%v</p>\n", problem)
	}
	m.add(`<form method="post" action="/login">
<p><label>Bearer token of the cluster <input name="token" type="password" autocomplete="off" required autofocus></label>
<button>Log in</button></p>
</form>
<p>For instance that of a service account: <code>kubectl create token ACCOUNT --namespace NAMESPACE</code>. You see what
it may list. The token stays in a cookie of this browser until it is closed, or you log out.</p>
<form method="post" action="/logout"><button>Log out</button></form>
`)
	m.send(w, status)
}

// login stores a token that the cluster accepts in a cookie that no script can read.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	t := strings.TrimSpace(r.PostFormValue("token"))
	switch {
	case !tokens.MatchString(t):
		writeLogin(w, http.StatusBadRequest, "This is no token: paste one line, as kubectl create token prints it.")
		return
	case len(t) > mostCookie:
		writeLogin(w, http.StatusBadRequest,
			"This token is too long for a browser's cookie. A service account's is short enough: kubectl create token ACCOUNT.")
		return
	}
	if err := s.beFull(r.Context()); err != nil {
		writeLogin(w, http.StatusServiceUnavailable, "Nothing can be shown: "+err.Error())
		return
	}
	if _, err := s.o.Gate.Review(r.Context(), t); err != nil {
		r.URL.Path = "/" // answer a person: with the form
		refuse(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: t, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: -1,
	})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
