package awsapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAPanicIsAnInternalErrorAndALogEntry(t *testing.T) {
	var log strings.Builder
	s := &server{log: slog.New(slog.NewTextHandler(&log, nil))}
	w := httptest.NewRecorder()
	s.recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })).ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "InternalError") || !strings.Contains(log.String(), "boom") {
		t.Errorf("%d %s; log %q", w.Code, w.Body, log.String())
	}
}
