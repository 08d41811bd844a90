package web

import (
	_ "embed"
	"html/template"
	"net/http"
	"regexp"
	"strings"

	"github.com/nodeless/nodeless/view"
)

//go:embed login.html
var loginText string

var loginTemplate = template.Must(template.New("login").Funcs(template.FuncMap{"text": view.Escape}).Parse(loginText))

// mostCookie is how long a token may be to be kept by a browser.
const mostCookie = 3800

// tokens are what the API server gives out: nothing else can be one, nor be in a cookie.
var tokens = regexp.MustCompile(`^[A-Za-z0-9._~+/=:-]+$`)

func writeLogin(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = loginTemplate.Execute(w, problem) // or the reader went
}

// login keeps a token that the cluster knows in a cookie that no script can read.
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
		r.URL.Path = "/" // a person asks
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
