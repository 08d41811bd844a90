package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// post sends a what-if question.
func (s *site) post(body, kind, site string) (int, string) {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/whatif", strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", site)
	w := httptest.NewRecorder()
	s.visitor().ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	return w.Code, string(text)
}

func TestWhatIfIsBoundedAndSaysWhatIsWrong(t *testing.T) {
	s := open(t, 1, 1)
	const question, json = `{"scales": ["deployment/web=5"]}`, "application/json; charset=utf-8"
	if status, text := s.post(question, json, "same-origin"); status != http.StatusNotImplemented ||
		!strings.Contains(text, "nodeless plan") {
		t.Errorf("without forecasts: %d %s", status, text)
	}
	s.life = t.Context()
	began, end := make(chan struct{}), make(chan struct{})
	s.o.Forecast = func(ctx context.Context, q WhatIf) (any, error) {
		switch q.Manifests {
		case "given up":
			<-ctx.Done()
			return nil, ctx.Err()
		case "wait":
			close(began)
			<-end
		case "late":
			return nil, fmt.Errorf("forecast: %w", context.DeadlineExceeded)
		case "wrong":
			return nil, fmt.Errorf("manifest: line 3: NodePool %s: unknown field", hostile)
		}
		return map[string]any{"changes": []string{hostile}, "scales": q.Scales}, nil
	}
	for _, c := range []struct {
		body, kind, site string
		status           int
		says             string
	}{
		{question, json, "same-origin", 200, `"scales":["deployment/web=5"]`},
		{question, "text/plain", "same-origin", 415, "application/json"},
		{question, json, "cross-site", 403, "another page"},
		{`{}`, json, "", 400, "nothing is to be changed"},
		{`{"manifest": ""}`, json, "", 400, "unknown field"},
		{`{"manifests": "` + strings.Repeat("a", mostQuestion) + `"}`, json, "", 413, "1024 KiB"},
		{`{"deletes": [` + strings.Repeat(`"a",`, mostNamed) + `"a"]}`, json, "", 400, "name 100 at most"},
		{`{"manifests": "late"}`, json, "", 504, "nodeless plan"},
		{`{"manifests": "wrong"}`, json, "", 422, "line 3"},
	} {
		status, text := s.post(c.body, c.kind, c.site)
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%.60s as %s from %q: %d %s", c.body, c.kind, c.site, status, text)
		}
		if strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%.60s: characters that do something: %q", c.body, text)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, http.MethodPost, "http://127.0.0.1/api/whatif",
		strings.NewReader(`{"manifests": "given up"}`))
	r.Header.Set("Content-Type", json)
	s.visitor().ServeHTTP(httptest.NewRecorder(), r) // it ends, since whoever asked has gone
	done := make(chan struct{})
	go func() { defer close(done); s.post(`{"manifests": "wait"}`, json, "") }()
	<-began
	if status, text := s.post(question, json, ""); status != http.StatusTooManyRequests ||
		!strings.Contains(text, "another forecast") {
		t.Errorf("while one is made: %d %s", status, text)
	}
	close(end)
	<-done
}
