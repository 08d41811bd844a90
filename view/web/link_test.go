package web

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/view/viewtest"
)

// A caller on this machine without the token, such as a microVM's guest, learns nothing.
func TestNobodyIsLetInWithoutTheToken(t *testing.T) {
	s := open(t, 2, 1)
	closed := New(Options{Model: s.model})
	for _, of := range []struct {
		server *Server
		token  string
	}{{s.Server, ""}, {s.Server, "guess"}, {s.Server, storyToken[1:]}, {closed, ""}, {closed, storyToken}} {
		h := of.server.Handler()
		for _, path := range []string{
			"/", "/lite", "/main.js", "/login", "/api/stream", "/api/history", "/api/why?of=pod/web-0-0", "/api/who",
			"/api/pods?node=" + viewtest.NodeName(0), "/api/whatif",
			"/no-such",
		} {
			for _, how := range []string{"header", "cookie", "address"} {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Host = "localhost"
				switch how {
				case "header":
					r.Header.Set("Authorization", "Bearer "+of.token)
				case "cookie":
					r.AddCookie(&http.Cookie{Name: linkCookie(r.Host), Value: of.token})
				case "address":
					q := r.URL.Query()
					q.Set("token", of.token)
					r.URL.RawQuery = q.Encode()
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if text := w.Body.String(); w.Code != http.StatusUnauthorized || strings.Contains(text, "ip-10-") ||
					strings.Contains(text, "web-0") || len(w.Result().Cookies()) > 0 {
					t.Errorf("%s with token %q as %s: %d %s", path, of.token, how, w.Code, text)
				} else if !strings.Contains(text, "nodeless status") {
					t.Errorf("%s does not say where the link is: %s", path, text)
				}
			}
		}
	}
}

// A browser that opens the link keeps the token only in a cookie, which no script and no other site can use.
func TestABrowserComesByTheLink(t *testing.T) {
	s := open(t, 1, 1)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	jar, _ := cookiejar.New(nil)
	hops := []string{}
	browser := &http.Client{
		Jar:           jar,
		CheckRedirect: func(r *http.Request, _ []*http.Request) error { hops = append(hops, r.URL.RequestURI()); return nil },
	}
	get := func(path string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html,*/*;q=0.8")
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	if resp, _ := get("/lite"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("before the link: %d", resp.StatusCode)
	}
	resp, text := get("/lite?sort=node&token=" + storyToken)
	if resp.StatusCode != http.StatusOK || !strings.Contains(text, viewtest.NodeName(0)) || len(hops) != 1 ||
		hops[0] != "/lite?sort=node" {
		t.Errorf("by the link: %d, by way of %q", resp.StatusCode, hops)
	}
	set := resp.Request.Response.Header.Get("Set-Cookie")
	if !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") ||
		!strings.Contains(set, "Path=/") || strings.Contains(set, "Domain") {
		t.Errorf("the cookie is %q", set)
	}
	for _, path := range []string{"/lite", "/api/history", "/login"} {
		if resp, _ := get(path); resp.StatusCode != http.StatusOK {
			t.Errorf("%s afterwards: %d", path, resp.StatusCode)
		}
	}
	if resp, _ := get("/lite?token=old"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("by a link that is out of date: %d", resp.StatusCode)
	}
	hops = nil
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		hops = append(hops, r.URL.Host)
		return http.ErrUseLastResponse
	}
	if get("//evil.example/?token=" + storyToken); len(hops) != 1 || "http://"+hops[0] != server.URL {
		t.Errorf("a link leads to %q", hops)
	}
}

// Programs send the token with each request and are answered directly, without a redirect.
func TestAProgramSendsTheToken(t *testing.T) {
	s := open(t, 1, 1)
	h := s.Handler()
	for _, c := range []struct{ path, authorization string }{
		{"/lite", "Bearer " + storyToken},
		{"/lite?token=" + storyToken, ""},
		{"/api/history", "bearer " + storyToken},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+c.path, nil)
		r.Header.Set("Authorization", c.authorization)
		r.Header.Set("Accept", "*/*")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK || strings.Contains(w.Body.String(), storyToken) {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
	if link := Link("127.0.0.1:8080", "a b"); link != "http://127.0.0.1:8080/?token=a+b" {
		t.Errorf("the link is %s", link)
	}
}
